"""Checkpoints on the Hugging Face hub."""

import re
from pathlib import Path

from keras_msd.checks import InputError, require

HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # organisation/model
# Weights, settings and vocabularies only: nothing that can run.
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model"]


def fetch(name: str) -> Path:
    """Download a checkpoint, or find it in the hub's cache, and return its folder.

    Args:
        name: "hf://organisation/model", or "hf://organisation/model@revision".

    Raises:
        InputError: The name has another form, `huggingface_hub` is not installed, or
            the hub cannot be reached or has no such model.
    """
    parts = re.fullmatch(rf"hf://({HUB_NAME.pattern})(?:@([\w./-]+))?", name)
    if not parts:
        raise InputError(
            f"A hub name must read hf://organisation/model. Received: {name!r}. "
            "For a folder on this machine, give its path without hf://."
        )
    hub = require("huggingface_hub", "hf", f"Reading {name}")
    try:
        folder = hub.snapshot_download(
            parts[1], revision=parts[2], allow_patterns=PATTERNS
        )
    # The client's errors share no base class across its versions and its transports.
    except Exception as error:
        raise InputError(
            f"`{name}` could not be fetched ({type(error).__name__}: {error}). Check "
            "the name and the network, or give the path of a folder that holds the "
            "model's files."
        ) from error
    return Path(folder)
