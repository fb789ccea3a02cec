"""The command `keras-msd serve`: an encoder behind the embeddings API of OpenAI."""

from pathlib import Path
from typing import Annotated, Any

import typer


def serve(
    model: Annotated[
        str,
        typer.Argument(
            help="An encoder's folder, tiny12, an artefact or hf://organisation/model."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for every network.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port; 0 for a free one.")
    ] = 8000,
    name: Annotated[
        str | None, typer.Option(help="What requests call the model; else its name.")
    ] = None,
) -> None:
    """Serve embeddings over HTTP as OpenAI's API does.

    Example: keras-msd serve tiny12 --port 8000
    """
    from keras_msd.serve.app import serve as run

    path = Path(model)
    if path.is_file() or (path / "card.json").is_file():
        from keras_msd.export import load_artefact  # needs no TensorFlow

        encoder: Any = load_artefact(model)
    else:
        from keras_msd import load_encoder

        encoder = load_encoder(model)
    run(encoder, name or path.name or path.resolve().name, host, port)
