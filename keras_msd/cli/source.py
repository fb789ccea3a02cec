"""What a command that only needs vectors is given: an encoder or a teacher."""

from pathlib import Path
from typing import Annotated, Any

import typer

SOURCE_HELP = (
    "An encoder's folder, an artefact, hf://organisation/model, or a teacher: "
    '"default", a published SavedModel, an .npz file.'
)
Source = Annotated[str, typer.Argument(help=SOURCE_HELP)]


def open_source(source: str) -> Any:
    """Return what `source` names; it has `encode`.

    Raises:
        InputError: Nothing of these kinds is there, or it is damaged.
    """
    from keras_msd import load_encoder, load_teacher
    from keras_msd.teachers.teacher import default_folder, published_saved_model

    if source == "default":
        return load_encoder(default_folder())
    if source.endswith(".npz") or published_saved_model(Path(source)):
        return load_teacher(source)
    return load_encoder(source)
