from keras_msd import (
    beam as beam,
)
from keras_msd import (
    data as data,
)
from keras_msd import (
    distribute as distribute,
)
from keras_msd import (
    evaluate as evaluate,
)
from keras_msd import (
    export as export,
)
from keras_msd import (
    layers as layers,
)
from keras_msd import (
    losses as losses,
)
from keras_msd import (
    models as models,
)
from keras_msd import (
    recipes as recipes,
)
from keras_msd import (
    report as report,
)
from keras_msd import (
    stages as stages,
)
from keras_msd import (
    starts as starts,
)
from keras_msd import (
    teachers as teachers,
)
from keras_msd import (
    testing as testing,
)
from keras_msd import (
    tokenizers as tokenizers,
)
from keras_msd import (
    training as training,
)
from keras_msd.checks import InputError as InputError
from keras_msd.distillation.distil import distil as distil
from keras_msd.evaluate import (
    callbacks as callbacks,
)
from keras_msd.evaluate.nearest import search as search
from keras_msd.load import load_encoder as load_encoder
from keras_msd.load import load_teacher as load_teacher
from keras_msd.models.encoder import Encoder as Encoder
from keras_msd.models.encoder import new_encoder as new_encoder
from keras_msd.models.student import (
    build_student as build_student,
)
from keras_msd.models.student import (
    thin_deep as thin_deep,
)
from keras_msd.models.trim import (
    trim_vocabulary as trim_vocabulary,
)
from keras_msd.models.trim import (
    trimming_report as trimming_report,
)
from keras_msd.quantize import quantize_embeddings as quantize_embeddings

__version__: str
