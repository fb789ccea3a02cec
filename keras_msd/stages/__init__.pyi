from keras_msd.stages.align_embedding import AlignEmbedding as AlignEmbedding
from keras_msd.stages.base import LossTerm as LossTerm
from keras_msd.stages.base import Stage as Stage
from keras_msd.stages.checkpoint import Checkpoint as Checkpoint
from keras_msd.stages.classify_inference import ClassifyInference as ClassifyInference
from keras_msd.stages.collapse_monitor import CollapseMonitor as CollapseMonitor
from keras_msd.stages.contrastive_learning import (
    ContrastiveLearning as ContrastiveLearning,
)
from keras_msd.stages.imitation import (
    TeachAssistant as TeachAssistant,
)
from keras_msd.stages.imitation import (
    TeachStudent as TeachStudent,
)
from keras_msd.stages.optimizer import (
    WarmUp as WarmUp,
)
from keras_msd.stages.optimizer import (
    make_optimizer as make_optimizer,
)
from keras_msd.stages.profile import profile_updates as profile_updates
from keras_msd.stages.regress_similarity import RegressSimilarity as RegressSimilarity
from keras_msd.stages.teach_thin_deep import TeachThinDeep as TeachThinDeep
