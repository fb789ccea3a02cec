"""The formats `onnx` and `onnx_text`."""
