"""Folders in the layout of the Hugging Face hub."""
