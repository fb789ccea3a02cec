"""The command `keras-msd distil`: one's own pairs in, an encoder out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.cli import output
from keras_msd.cli.output import Json
from keras_msd.cli.stop import goes_on

EXAMPLE = "Example: keras-msd distil pairs.csv --out model --minutes 5"


def distil(
    pairs: Annotated[
        list[str],
        typer.Argument(
            help="Pairs: .tsv, .csv (first row: source,target or language codes), "
            ".jsonl, .tmx, .parquet, .po, Moses; .gz too."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for encoder, recipe and report.")],
    language: Annotated[
        str | None,
        typer.Option(help="Code of the translations' language, where no name says it."),
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(help="Code of the sources', where it is not English.")
    ] = None,
    teacher: Annotated[
        str, typer.Option(help="As for `teacher.source` of a recipe.")
    ] = "default",
    multilingual: Annotated[
        bool, typer.Option("--multilingual", help="The teacher reads all languages.")
    ] = False,
    minutes: Annotated[float, typer.Option(help="Most time of the training.")] = 5.0,
    vocabulary_size: Annotated[
        int | None, typer.Option(help="Most rows of the word table.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="What is trained: teacher (the closed form), tiny12, or the folder "
            "of an encoder without a body. By default tiny12, where it is installed."
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="Folder of guide vectors, reused by runs."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value."),
    ] = None,
    json: Json = False,
) -> None:
    """Distil a teacher with pairs of your own, in any languages.

    One source in eight is held out: half of these pairs choose the weights, the others
    are reported. First the closed form of these pairs, then training, from tiny12 if
    it is there, until the held-out scores stop or the time is over; the result is never
    below the closed form where it is chosen.
    """
    from keras_msd import distil as distil_pairs
    from keras_msd.recipes.loading import parse_override

    with goes_on():
        result = distil_pairs(
            pairs,
            out,
            language=language,
            source_language=source_language,
            teacher=teacher,
            multilingual=multilingual,
            minutes=minutes,
            vocabulary_size=vocabulary_size,
            start=start,
            store_dir=store,
            overrides=dict(map(parse_override, set_ or [])),
        )
    output.show(result, json, distil_text)


def distil_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield what was distilled, gained and lost."""
    for code, counts in result["pairs"].items():
        parts = ", ".join(f"{number} to {use}" for use, number in counts.items())
        yield f"Pairs in {code}: {parts}"
    for key, name in (("closed_form", "Closed form"), ("encoder_scores", "Encoder")):
        scores = result[key]
        tracks = ", ".join(
            f"{it} {value:.1f}" for it, value in scores["tracks"].items()
        )
        similar = scores["teacher_similarities"]
        yield (
            f"{name}: P@1 {scores['precision']:.1f} on the held-out pairs to report "
            f"({tracks}); teacher's similarities kept: {similar['within']:.1f} within "
            f"the source's language, {similar['across']:.1f} across"
        )
    start = result["start"]
    yield f"Start: {start['source']}, P@1 {start['precision']:.1f} before training"
    kept = result["kept"].replace("_", " ")
    gained = f"{result['gain']:+.1f} points, {result['updates']} updates"
    yield f"Gain: {gained}; {kept} kept"
    yield f"Encoder: {result['encoder']}, {result['parameters']:,} parameters"
    yield f"Report: {result['report']}; again: {result['again']}"
