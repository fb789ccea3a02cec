"""Readers of parallel files: one format a module; `formats.READERS` lists them."""
