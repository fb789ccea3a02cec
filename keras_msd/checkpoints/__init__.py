"""Encoders from the folders that others publish."""
