"""Every stage by its name in recipes, in the order in which they run."""

from keras_msd.stages import (
    align_embedding,
    classify_inference,
    contrastive_learning,
    regress_similarity,
    teach_assistant,
    teach_student,
    teach_thin_deep,
)
from keras_msd.stages.stage import StageRecord

# Add your own under its name.
STAGES: dict[str, StageRecord] = {
    "pretrain_assistant": contrastive_learning.PRETRAINING,
    "teach_assistant": teach_assistant.RECORD,
    "align_embedding": align_embedding.RECORD,
    "teach_student": teach_student.RECORD,
    "contrastive_learning": contrastive_learning.RECORD,
    "teach_thin_deep": teach_thin_deep.RECORD,
    "classify_inference": classify_inference.RECORD,
    "regress_similarity": regress_similarity.RECORD,
}
