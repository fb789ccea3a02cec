"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_msd.checks import InputError
    from keras_msd.evaluate.search import search
    from keras_msd.models.encoder import Encoder, new_encoder
    from keras_msd.models.loading import load_encoder
    from keras_msd.models.student import build_student
    from keras_msd.models.teacher import load_teacher
    from keras_msd.models.thin_deep import thin_deep
    from keras_msd.models.trim_vocabulary import trim_vocabulary, trimming_report

__version__ = "0.1.0"

_NAMES = {
    "Encoder": "keras_msd.models.encoder",
    "InputError": "keras_msd.checks",
    "build_student": "keras_msd.models.student",
    "load_encoder": "keras_msd.models.loading",
    "load_teacher": "keras_msd.models.teacher",
    "new_encoder": "keras_msd.models.encoder",
    "search": "keras_msd.evaluate.search",
    "thin_deep": "keras_msd.models.thin_deep",
    "trim_vocabulary": "keras_msd.models.trim_vocabulary",
    "trimming_report": "keras_msd.models.trim_vocabulary",
}
_FOLDERS = (
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
    "testing",
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


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if name in _FOLDERS:
        return import_module(f"keras_msd.{name}")
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES, *_FOLDERS])
