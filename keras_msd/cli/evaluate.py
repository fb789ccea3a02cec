"""The command `keras-msd evaluate`: score an encoder on an evaluation set."""

from pathlib import Path
from typing import Annotated

import typer

from keras_msd.cli import output
from keras_msd.cli.data import codes
from keras_msd.cli.source import Source, open_source

EXAMPLE = (
    "Example: keras-msd evaluate runs/demo/student --data DATA --set sts2017-extended"
)


def evaluate(
    encoder: Source,
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
    queries: Annotated[
        int | None, typer.Option(help="un: English sentences looked up; else all.")
    ] = None,
    tuned_on: Annotated[
        str | None, typer.Option(help="bucc2018: part that sets the threshold.")
    ] = None,
    margin: Annotated[
        str | None, typer.Option(help="bucc2018: ratio, distance or absolute.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="bucc2018, un: numpy or faiss.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines.")
    ] = False,
) -> None:
    """Score an encoder on an evaluation set, within and across languages."""
    from keras_msd.evaluate import score_set

    given = {
        "queries": queries, "tuned_on": tuned_on, "margin": margin, "engine": engine
    }  # fmt: skip
    options = {key: value for key, value in given.items() if value is not None}
    wanted = codes(languages) or None
    scores = score_set(open_source(encoder), set_, data, wanted, split, **options)
    output.show(scores, json, output.scores_table)
