from keras_msd.testing.checks import run_layer_test as run_layer_test
from keras_msd.testing.checks import run_loss_test as run_loss_test
from keras_msd.testing.checks import run_stage_test as run_stage_test
from keras_msd.testing.tiny import SENTENCES as SENTENCES
from keras_msd.testing.tiny import tiny_encoder as tiny_encoder
from keras_msd.testing.tiny import tiny_pairs as tiny_pairs
from keras_msd.testing.tiny import tiny_tokenizer as tiny_tokenizer
