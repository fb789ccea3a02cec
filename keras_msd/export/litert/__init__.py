"""LiteRT artefacts."""
