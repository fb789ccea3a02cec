from keras_msd.layers.bottleneck_embedding import (
    BottleneckEmbedding as BottleneckEmbedding,
)
from keras_msd.layers.pooling import POOLINGS as POOLINGS
from keras_msd.layers.pooling import L2Normalize as L2Normalize
from keras_msd.layers.pooling import Pooling as Pooling
from keras_msd.layers.pooling import masked_mean as masked_mean
from keras_msd.layers.recurrent_encoder import RecurrentEncoder as RecurrentEncoder
from keras_msd.layers.recurrent_encoder import gelu_erf as gelu_erf
from keras_msd.layers.recurrent_encoder import gelu_tanh as gelu_tanh
