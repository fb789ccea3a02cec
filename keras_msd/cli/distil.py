"""The command `keras-msd distil`: train an encoder on your own sentence pairs."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.choices import MIN_PAIRS
from keras_msd.cli.output import says_how_to_resume


def distil(
    pairs: list[str],
    *,
    out: Path,
    language: str | None = None,
    source_language: str | None = None,
    format: str | None = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B")] = None,
    teacher: str = "default",
    multilingual: bool = False,
    start: str | None = None,
    guard: float = 0.5,
    no_guard: bool = False,
    minutes: float = 5.0,
    updates: int = 20_000,
    batch_size: int = 1024,
    learning_rate: float = 7e-4,
    vocabulary_size: int | None = None,
    store: Path | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Train an encoder on your sentence pairs, in any languages.

    One source sentence in eight is held out: half of these pairs select the checkpoint,
    the other half is for the report. With the default teacher, training starts from
    tiny12 if it is installed. It runs until the score stops rising or --minutes is up.
    If no checkpoint is better than the start, the start is kept.

    Example: keras-msd distil pairs.csv --out model --minutes 5

    Args:
        pairs: Pairs: .tsv, .csv (header: source,target or language codes), .jsonl,
            .json, .tmx, .parquet, Moses; compressed or zipped too.
        out: Folder for the encoder and the report.
        language: Code of the translations' language, if no name gives it.
        source_language: Code of the sources' language, if not English.
        format: Format of the files, if no suffix shows it.
        columns: Names or numbers (from 1) of both columns.
        teacher: default, a folder, hf://org/name, ...
        multilingual: The teacher reads other languages too.
        start: Where training starts: pairs (ridge baseline), tiny12, or the folder of
            an encoder without transformer layers. Default: tiny12, if it is installed
            and the teacher is the default one; else pairs.
        guard: Reject a checkpoint if a score on general text is lower by more than this
            many points.
        no_guard: No such check and no general sentences in training; the result may be
            the ridge baseline.
        minutes: Maximum time of the training step; the others add about a minute.
        updates: Maximum training steps.
        batch_size: Pairs in a batch.
        learning_rate: Constant rate of AdamW.
        vocabulary_size: Maximum vocabulary of the ridge baseline.
        store: Folder to cache teacher vectors; runs can share it.
        seed: Seed for the order of the pairs.
    """
    # TensorFlow takes seconds to load.
    print(
        f"Distilling into {out} (at most {minutes:g} min of training)",
        file=sys.stderr,
        flush=True,
    )
    from keras_msd.data.readers.discover import check_pairs, read_pairs

    names = columns.split(",") if columns else None
    check_pairs(read_pairs(pairs, format, language, source_language, names), MIN_PAIRS)
    from keras_msd import distil as distil_pairs

    with says_how_to_resume():
        result = distil_pairs(
            pairs,
            out,
            language=language,
            source_language=source_language,
            format=format,
            columns=names,
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
    return result | {"report": str(out / "report.json")}


def distil_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the printed report."""
    for code, counts in result["pairs"].items():
        parts = ", ".join(f"{number} to {use}" for use, number in counts.items())
        yield f"Pairs in {code}: {parts}"
        if lost := result["dropped"][code]:
            reasons = (f"{count} {name}" for name, count in lost.items())
            yield f"Dropped in {code}: {', '.join(reasons).replace('_', ' ')}"
    yield f"{'On held-out text':<40}{'start':>8}{'end':>8}{'baseline':>14}"
    for name, (group, *rest) in {
        "your pairs, P@1": ("precision",),
        "agreement with the teacher, within": ("similarities", "within"),
        "agreement with the teacher, across": ("similarities", "across"),
        "general text, P@1": ("general", "translations"),
        "general text, similarity": ("general", "similarity"),
    }.items():
        scores = [result["scores"][it][group] for it in ("start", "end", "closed_form")]
        before, after, closed = (it[rest[0]] if rest else it for it in scores)
        yield f"{name:<40}{before:8.1f}{after:8.1f}{closed:14.1f}"
    steps, best = result["updates"], result["best_update"]
    yield f"Start: {result['start']}; {steps} training steps, best {best}"
    if result["weights_refused"]:
        yield f"Guard: rejected {result['weights_refused']} checkpoints"
    yield f"Result: {result['verdict']}"
    yield f"Encoder: {result['encoder']}, {result['parameters']:,} parameters"
    yield f"Report: {result['report']}"
