"""The command `keras-msd distil`: train an encoder on your own sentence pairs."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.cli import output
from keras_msd.cli.output import Json, goes_on


def distil(
    pairs: Annotated[
        list[str],
        typer.Argument(
            help="Pairs: .tsv, .csv (header: source,target or language codes), "
            ".jsonl, .json, .tmx, .parquet, Moses; compressed or zipped too."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the encoder and the report.")],
    language: Annotated[
        str | None,
        typer.Option(help="Code of the translations' language, if no name gives it."),
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(help="Code of the sources' language, if not English.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Format of the files, if no suffix shows it.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Names or numbers (from 1) of both columns."),
    ] = None,
    teacher: Annotated[
        str, typer.Option(help="default, a folder, hf://org/name, ...")
    ] = "default",
    multilingual: Annotated[
        bool,
        typer.Option("--multilingual", help="The teacher reads other languages too."),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            help="Where training starts: pairs (ridge baseline), tiny12, or the folder "
            "of an encoder without transformer layers. Default: tiny12, if installed."
        ),
    ] = None,
    guard: Annotated[
        float,
        typer.Option(help="Maximum drop, in points, of a score on general text."),
    ] = 0.5,
    no_guard: Annotated[
        bool,
        typer.Option("--no-guard", help="Train only on your pairs."),
    ] = False,
    minutes: Annotated[float, typer.Option(help="Maximum training time.")] = 5.0,
    updates: Annotated[int, typer.Option(help="Maximum training steps.")] = 20_000,
    batch_size: Annotated[int, typer.Option(help="Pairs in a batch.")] = 1024,
    learning_rate: Annotated[
        float, typer.Option(help="Constant rate of AdamW.")
    ] = 7e-4,
    vocabulary_size: Annotated[
        int | None, typer.Option(help="Maximum vocabulary of the ridge baseline.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", help="Folder to cache teacher vectors; runs can share it."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the order of the pairs.")] = 0,
    json: Json = False,
) -> None:
    """Train an encoder on your sentence pairs, in any languages.

    One source sentence in eight is held out: half of these pairs select the checkpoint,
    the other half is for the report. Training starts from tiny12 if it is installed,
    and runs until the score stops rising or --minutes is up. A checkpoint is rejected
    if its scores on general text fall (--guard). If no checkpoint is better than the
    start, the start is kept.

    Example: keras-msd distil pairs.csv --out model --minutes 5
    """
    # TensorFlow takes seconds to load.
    print(
        f"Distilling into {out} (at most {minutes:g} min of training)",
        file=sys.stderr,
        flush=True,
    )
    from keras_msd import distil as distil_pairs

    with goes_on():
        result = distil_pairs(
            pairs,
            out,
            language=language,
            source_language=source_language,
            format=format,
            columns=columns.split(",") if columns else None,
            teacher=teacher,
            multilingual=multilingual,
            start=start,
            guard=None if no_guard else guard,
            minutes=minutes,
            updates=updates,
            batch_size=batch_size,
            learning_rate=learning_rate,
            vocabulary_size=vocabulary_size,
            store_dir=store,
            seed=seed,
        )
    output.show(result | {"report": str(out / "report.json")}, json, distil_text)


def distil_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the printed report."""
    for code, counts in result["pairs"].items():
        parts = ", ".join(f"{number} to {use}" for use, number in counts.items())
        yield f"Pairs in {code}: {parts}"
    scores, start = result["scores"], result["start"]
    yield f"{'On held-out text':<40}{'start':>8}{'end':>8}{'baseline':>14}"
    for name, keys in {
        "your pairs, P@1": ("precision",),
        "agreement with the teacher, within": ("similarities", "within"),
        "agreement with the teacher, across": ("similarities", "across"),
        "general text, P@1": ("general", "translations"),
        "general text, similarity": ("general", "similarity"),
    }.items():
        values = (_at(scores[it], keys) for it in ("start", "end", "closed_form"))
        before, after, closed = values
        yield f"{name:<40}{before:8.1f}{after:8.1f}{closed:14.1f}"
    steps, best = result["updates"], result["best_update"]
    yield f"Start: {start}; {steps} training steps, best {best}"
    if result["weights_refused"]:
        yield f"Guard: rejected {result['weights_refused']} checkpoints"
    yield f"Result: {result['verdict']}"
    yield f"Encoder: {result['encoder']}, {result['parameters']:,} parameters"
    yield f"Report: {result['report']}"


def _at(scores: dict[str, Any], keys: tuple[str, ...]) -> float:
    value: Any = scores
    for key in keys:
        value = value[key]
    return float(value)
