"""Before stage 1: the assistant imitates the teacher's vectors and similarities."""

from keras_msd.stages.contrastive_learning import (
    ContrastiveLearning,
    ContrastiveSettings,
)
from keras_msd.stages.record import OF_SOURCE, StageRecord

RECORD = StageRecord(
    ContrastiveLearning,
    ContrastiveSettings,
    guides=OF_SOURCE,
    trains="assistant",
    label="pre-training",
)
