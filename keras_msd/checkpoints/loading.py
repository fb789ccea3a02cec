"""Encoders from folders, hub names and artefacts."""

from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_folder

# One of these says that a folder is an artefact, or was one before it was taken apart.
MODELS = ("1/saved_model.pb", "saved_model.pb", "model.tflite", "model.onnx")


def load_encoder(source: str | Path) -> Any:
    """Load an encoder.

    Args:
        source: A folder of ours, a folder in sentence-transformers layout,
            "hf://org/name", or an artefact of any format: its folder, or the model
            file in it.

    Returns:
        An `Encoder`; from an artefact an `Artefact` with `encode`, `dim` and `card`.

    Raises:
        InputError: Nothing of these kinds is there, or it is damaged.
    """
    from keras_msd.models.storage import is_saved_encoder, load_saved

    if str(source).startswith("hf://"):
        from keras_msd.checkpoints.hub import fetch

        source = fetch(str(source))
    if Path(source).is_file():
        return _artefact(source)
    folder = existing_folder(source, "encoder")
    if is_saved_encoder(folder):
        return load_saved(folder)
    if (folder / "card.json").is_file():
        return _artefact(folder)
    if (folder / "config.json").is_file() or (folder / "modules.json").is_file():
        from keras_msd.checkpoints.checkpoint import load_checkpoint

        return load_checkpoint(folder)
    if any((folder / name).exists() for name in MODELS):
        return _artefact(folder)
    raise InputError(
        f"`{folder}` holds no encoder: neither encoder.json (ours), modules.json or "
        "config.json (a checkpoint) nor card.json (an artefact). "
        "Give one of these folders."
    )


def _artefact(path: str | Path) -> Any:
    from keras_msd.export import load_artefact

    return load_artefact(path)
