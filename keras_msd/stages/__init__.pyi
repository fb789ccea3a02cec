from keras_msd.stages.finetune import ClassifyInference as ClassifyInference
from keras_msd.stages.finetune import RegressSimilarity as RegressSimilarity
from keras_msd.stages.msd import AlignEmbedding as AlignEmbedding
from keras_msd.stages.msd import (
    ContrastiveLearning as ContrastiveLearning,
)
from keras_msd.stages.msd import (
    TeachAssistant as TeachAssistant,
)
from keras_msd.stages.msd import (
    TeachStudent as TeachStudent,
)
from keras_msd.stages.stage import LossTerm as LossTerm
from keras_msd.stages.stage import Stage as Stage
from keras_msd.stages.thin_deep import TeachThinDeep as TeachThinDeep
from keras_msd.training.callbacks import CollapseMonitor as CollapseMonitor
from keras_msd.training.optimizer import (
    WarmUp as WarmUp,
)
from keras_msd.training.optimizer import (
    make_optimizer as make_optimizer,
)
from keras_msd.training.profile import profile_updates as profile_updates
