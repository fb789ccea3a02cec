"""The command `keras-msd evaluate`: score an encoder on an evaluation set."""

from pathlib import Path
from typing import Annotated

import typer

from keras_msd.checks import InputError
from keras_msd.cli import output
from keras_msd.cli.output import Json, Source, codes, open_source
from keras_msd.evaluate.sets import SETS
from keras_msd.evaluate.splits import WHOLE


def of_sets(option: str, words: str) -> str:
    """Return the help of an option: the sets that take it, and what it is."""
    takers = [name for name, record in SETS.items() if option in record.options]
    return f"{', '.join(takers)}: {words}"


def evaluate(
    encoder: Source,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Data folder, or a set as downloaded."),
    ] = None,
    languages: Annotated[
        str,
        typer.Option(
            help="Codes, with commas; for parallel sets such as tatoeba also pairs "
            "(de-fr). Default: all."
        ),
    ] = "",
    set_: Annotated[
        str,
        typer.Option(
            "--set",
            "--sts",
            help=f"{', '.join(SETS)}; or the name of aligned similarity files.",
            autocompletion=lambda: list(SETS),
        ),
    ] = "stsb",
    split: Annotated[
        str | None, typer.Option(help="Such as test; default: the set's first split.")
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            help=of_sets(
                "part", "all, choose (tuning half) or report (reporting half)."
            )
        ),
    ] = WHOLE,
    queries: Annotated[
        int | None,
        typer.Option(help=of_sets("queries", "number of queries; default all.")),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(help=of_sets("margin", "ratio, distance or absolute.")),
    ] = None,
    mteb: Annotated[
        str | None,
        typer.Option(
            help="Instead: the name of a task of mteb, such as STS17, which mteb "
            "fetches and scores."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Score an encoder on an evaluation set.

    Example: keras-msd evaluate runs/demo/student --data DATA --set sts2017-extended
    """
    if mteb:
        from keras_msd.evaluate.mteb_adapter import mteb_scores

        scores = mteb_scores(lambda: open_source(encoder), mteb)
        output.show(scores, json, output.lines_text)
        return
    if data is None:
        raise InputError("Give `--data`, the folder of the set, or `--mteb TASK`.")
    from keras_msd.evaluate import score_set

    options = output.given(queries=queries, margin=margin)
    chosen = codes(languages) or None
    scores = score_set(open_source(encoder), set_, data, chosen, split, part, **options)
    output.show(scores, json, output.scores_table)
