"""The command `keras-msd evaluate`: score an encoder on an evaluation set."""

from pathlib import Path
from typing import Annotated

import typer

from keras_msd import cli_output as output
from keras_msd.cli_data import codes

EXAMPLE = (
    "Example: keras-msd evaluate runs/demo/student --data DATA --set sts2017-extended"
)


def evaluate(
    encoder: Annotated[
        str, typer.Argument(help="Encoder: a folder, an artefact or hf://.")
    ],
    data: Annotated[
        Path, typer.Option("--data", help="Data folder, or a set as downloaded.")
    ],
    languages: Annotated[
        str, typer.Option(help="Codes, with commas; all there are if left out.")
    ] = "",
    set_: Annotated[
        str,
        typer.Option(
            "--set",
            "--sts",
            help="sts2017, sts2017-extended, stsb-multi-mt, tatoeba, bucc2018, un; or "
            "the name of aligned similarity files, such as stsb or sick.",
        ),
    ] = "stsb",
    split: Annotated[
        str | None, typer.Option(help="Part of the set; else its usual one.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines.")
    ] = False,
) -> None:
    """Score an encoder on an evaluation set, within and across languages."""
    from keras_msd import load_encoder
    from keras_msd.evaluate import score_set

    wanted = codes(languages) or None
    scores = score_set(load_encoder(encoder), set_, data, wanted, split)
    output.show(scores, json, output.scores_table)
