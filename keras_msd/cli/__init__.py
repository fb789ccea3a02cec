"""The command line `keras-msd`: each command is one call of a public function."""

from keras_msd.cli.commands import app, main

__all__ = ["app", "main"]
