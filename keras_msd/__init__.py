"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

from typing import TYPE_CHECKING

from keras_msd.lazy import lazy_names

if TYPE_CHECKING:
    from keras_msd.checkpoints.loading import load_encoder
    from keras_msd.checks import InputError
    from keras_msd.evaluate.search import search
    from keras_msd.models.encoder import Encoder, new_encoder
    from keras_msd.models.student import build_student
    from keras_msd.models.thin_deep import thin_deep
    from keras_msd.models.trim_vocabulary import trim_vocabulary, trimming_report
    from keras_msd.teachers.teacher import load_teacher

__version__ = "0.1.0"

_NAMES = {
    "Encoder": "keras_msd.models.encoder",
    "InputError": "keras_msd.checks",
    "build_student": "keras_msd.models.student",
    "load_encoder": "keras_msd.checkpoints.loading",
    "load_teacher": "keras_msd.teachers.teacher",
    "new_encoder": "keras_msd.models.encoder",
    "search": "keras_msd.evaluate.search",
    "thin_deep": "keras_msd.models.thin_deep",
    "trim_vocabulary": "keras_msd.models.trim_vocabulary",
    "trimming_report": "keras_msd.models.trim_vocabulary",
}
_FOLDERS = (
    "checkpoints",
    "data",
    "evaluate",
    "export",
    "layers",
    "losses",
    "models",
    "recipes",
    "report",
    "stages",
    "starts",
    "teachers",
    "testing",
    "tokenizers",
)

__all__ = [
    "Encoder",
    "InputError",
    "build_student",
    "load_encoder",
    "load_teacher",
    "new_encoder",
    "search",
    "thin_deep",
    "trim_vocabulary",
    "trimming_report",
]


__getattr__, __dir__ = lazy_names(
    __name__, _NAMES | {name: f"keras_msd.{name}" for name in _FOLDERS}
)
