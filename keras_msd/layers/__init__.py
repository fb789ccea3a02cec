"""Keras layers of an encoder; they run on any Keras backend."""

from keras_msd.layers.bottleneck_embedding import BottleneckEmbedding
from keras_msd.layers.gelu_erf import gelu_erf, gelu_tanh
from keras_msd.layers.l2_normalize import L2Normalize
from keras_msd.layers.masked_mean import masked_mean
from keras_msd.layers.pooling import Pooling
from keras_msd.layers.recurrent_encoder import RecurrentEncoder
from keras_msd.layers.word_branch import WordBranch

__all__ = [
    "BottleneckEmbedding",
    "L2Normalize",
    "Pooling",
    "RecurrentEncoder",
    "WordBranch",
    "gelu_erf",
    "gelu_tanh",
    "masked_mean",
]
