"""Every stage by its name in recipes, in the order in which they run."""

from keras_msd.stages import (
    align_embedding,
    classify_inference,
    contrastive_learning,
    regress_similarity,
    teach_thin_deep,
)
from keras_msd.stages.stage import (
    OF_SOURCE,
    StageRecord,
    TeachAssistant,
    TeachStudent,
    both_sides,
    the_assistant,
)

# Add your own under its name.
STAGES: dict[str, StageRecord] = {
    "pretrain_assistant": contrastive_learning.PRETRAINING,
    "teach_assistant": StageRecord(
        TeachAssistant, guides=OF_SOURCE, trains="assistant", label="stage 1"
    ),
    "align_embedding": align_embedding.RECORD,
    "teach_student": StageRecord(
        TeachStudent, guides=both_sides("assistant", the_assistant)
    ),
    "contrastive_learning": contrastive_learning.RECORD,
    "teach_thin_deep": teach_thin_deep.RECORD,
    "classify_inference": classify_inference.RECORD,
    "regress_similarity": regress_similarity.RECORD,
}
