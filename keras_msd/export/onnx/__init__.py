"""ONNX: the formats `onnx` and `onnx_text`, and files of any other Keras network."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
