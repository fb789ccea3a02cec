"""ONNX artefacts."""
