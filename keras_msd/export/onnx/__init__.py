"""ONNX: the formats `onnx` and `onnx_text`, and files of any other Keras network."""

from keras_msd.export.onnx.convert import convert_network

__all__ = ["convert_network"]
