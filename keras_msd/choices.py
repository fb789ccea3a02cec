"""Names that arguments and settings choose from, and defaults that several share.

Recipes are read without Keras, so the names do not stand in the modules that act on
them, most of which import it. Named beside their values: `evaluate.parts`.
"""

from typing import Literal

Pooling = Literal["mean", "cls", "max"]  # of token vectors
Activation = Literal["gelu_erf", "gelu_tanh", "relu"]  # in a feed-forward layer
# How saved encoders and training store weights; an export also has "fp16".
IntegerScheme = Literal["int8", "int4_table", "int4"]
Target = Literal["soft", "bool", "ce_soft", "ce_hard", "softmax"]  # of similarities
Dims = Literal["mean", "sum"]  # of squared errors over dimensions
Feature = Literal["fd", "distillation_first", "synchronized"]  # of `TeachThinDeep`
DenseStart = Literal["random", "fitted"]  # of its dense layer
TableStart = Literal["random", "standard_normal"]  # of a student's embedding block
UnitFrom = Literal["first", "last", "spread"]  # layers that a student's unit copies
GoldScale = Literal["over_5", "from_1"]  # of similarity scores, see `data.scale_gold`
Schedule = Literal["linear", "cosine", "constant"]  # of the rate after the warm-up
Precision = Literal["float32", "bfloat16"]  # of a training's arithmetic
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]  # of two vectors
Strategy = Literal["none", "data_parallel"]  # of the devices of a training
Scale = Literal["smoke", "demo", "lab", "backbone", "paper"]  # of a recipe

# Of natural language inference, in the order of their ids.
CLASSES = ("entailment", "neutral", "contradiction")
SIDES = ("source", "target")  # of a pair of sentences
MIN_PAIRS = 100  # pairs that `distil` trains on at least
MIN_COMPARED = 2  # pairs that find each other: one has the other's wrong answers
MAX_LENGTH = 128  # tokens of a sentence, start and end included
PASSAGE_LENGTH = 512  # tokens of a text that an encoder made by `distil` reads

# Of an optimizer: Ding et al. 2022, section 4, and the authors' code.
WARMUP = 0.1  # share of the training steps
WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0
SCHEDULE: Schedule = "linear"
