"""Encoders that others published, and encoders in packages."""
