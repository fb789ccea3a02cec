"""The Gaussian error linear unit in forms that every export format can load."""

import math
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_msd")
def gelu_erf(x: Any) -> Any:
    """Return `0.5 x (1 + erf(x / sqrt 2))`, element by element.

    Written out because the exact gelu of the framework becomes an operation that ONNX
    runtimes do not have.

    Source: Hendrycks & Gimpel 2016, section 2.
    """
    return 0.5 * x * (1.0 + ops.erf(x * (1.0 / math.sqrt(2.0))))


@keras.saving.register_keras_serializable(package="keras_msd")
def gelu_tanh(x: Any) -> Any:
    """Return `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.

    Source: Hendrycks & Gimpel 2016, section 2, the approximation.
    """
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + ops.tanh(inner))
