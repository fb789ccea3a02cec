from keras_msd.models.average import average_weights as average_weights
from keras_msd.models.encoder import Encoder as Encoder
from keras_msd.models.encoder import new_encoder as new_encoder
from keras_msd.models.network import EncoderConfig as EncoderConfig
from keras_msd.models.network import build_model as build_model
from keras_msd.models.student import (
    ROWS as ROWS,
)
from keras_msd.models.student import (
    build_student as build_student,
)
from keras_msd.models.student import (
    merge_projection as merge_projection,
)
from keras_msd.models.student import (
    thin_deep as thin_deep,
)
from keras_msd.models.trim import (
    restore_vocabulary as restore_vocabulary,
)
from keras_msd.models.trim import (
    trim_vocabulary as trim_vocabulary,
)
from keras_msd.models.trim import (
    trimming_report as trimming_report,
)
