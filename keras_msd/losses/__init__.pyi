from keras_msd.losses.distances import (
    CosineSimilarityMSE as CosineSimilarityMSE,
)
from keras_msd.losses.distances import EmbeddingMSE as EmbeddingMSE
from keras_msd.losses.distances import (
    FeatureDistillation as FeatureDistillation,
)
from keras_msd.losses.distances import (
    SoftmaxClassification as SoftmaxClassification,
)
from keras_msd.losses.similarities import (
    AdditiveMarginSoftmax as AdditiveMarginSoftmax,
)
from keras_msd.losses.similarities import LogitDistillation as LogitDistillation
from keras_msd.losses.similarities import (
    MultilingualContrastive as MultilingualContrastive,
)
from keras_msd.losses.similarities import (
    SimilarityDistribution as SimilarityDistribution,
)
from keras_msd.losses.table import LOSSES as LOSSES
from keras_msd.losses.table import Matryoshka as Matryoshka
from keras_msd.losses.table import loss_class as loss_class
