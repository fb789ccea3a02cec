"""Tokenizers: from text to ids, and back to files."""
