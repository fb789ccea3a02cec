"""The command `keras-msd data made`."""

from pathlib import Path
from typing import Annotated

import typer

from keras_msd.cli import output
from keras_msd.cli.output import Json

data_app = typer.Typer(help="Make data.", no_args_is_help=True, rich_markup_mode=None)


def codes(text: str) -> list[str]:
    """Split language codes at commas."""
    return [code.strip() for code in text.split(",") if code.strip()]


@data_app.command(
    "made", epilog="Example: keras-msd data made DATA --pairs 1000 --languages de,fr"
)
def made(
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    pairs: Annotated[int, typer.Option(help="Pairs for each language.")] = 1000,
    languages: Annotated[str, typer.Option(help="Codes, with commas.")] = "de,fr",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    json: Json = False,
) -> None:
    """Write the made corpus: parallel sentences and a graded similarity set."""
    from keras_msd.data.made import write_made_data

    write_made_data(folder, languages=codes(languages), pairs=pairs, seed=seed)
    output.show({"data": str(folder)}, json, output.lines_text)
