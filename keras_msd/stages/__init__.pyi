from keras_msd.stages.align_embedding import AlignEmbedding as AlignEmbedding
from keras_msd.stages.classify_inference import ClassifyInference as ClassifyInference
from keras_msd.stages.contrastive_learning import (
    ContrastiveLearning as ContrastiveLearning,
)
from keras_msd.stages.regress_similarity import RegressSimilarity as RegressSimilarity
from keras_msd.stages.stage import LossTerm as LossTerm
from keras_msd.stages.stage import Stage as Stage
from keras_msd.stages.stage import StageRecord as StageRecord
from keras_msd.stages.stage import TeachAssistant as TeachAssistant
from keras_msd.stages.stage import TeachStudent as TeachStudent
from keras_msd.stages.table import STAGES as STAGES
from keras_msd.stages.teach_thin_deep import TeachThinDeep as TeachThinDeep
