"""Tiny data and encoders, and checks for layers, losses and stages of one's own."""

from keras_msd.testing.layers import run_layer_test
from keras_msd.testing.losses import run_loss_test
from keras_msd.testing.stages import run_stage_test
from keras_msd.testing.tiny import (
    SENTENCES,
    tiny_encoder,
    tiny_pairs,
    tiny_tokenizer,
)

__all__ = [
    "SENTENCES",
    "run_layer_test",
    "run_loss_test",
    "run_stage_test",
    "tiny_encoder",
    "tiny_pairs",
    "tiny_tokenizer",
]
