"""The commands `keras-msd index` and `keras-msd search`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError, explained
from keras_msd.cli import output
from keras_msd.cli.output import SOURCE_HELP, Json, open_source

CARD = "card"
PAIRS_HELP = "Files of held-out translations: calibrate the threshold on them."


def index(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files: text, .md, .csv, .tsv, .jsonl; also .gz."),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help=SOURCE_HELP)],
    out: Annotated[Path, typer.Option(help="Folder of the index.")],
    column: Annotated[
        str | None,
        typer.Option(help="Column or key with the text in .csv, .tsv, .jsonl."),
    ] = None,
    paragraphs: Annotated[
        bool,
        typer.Option(
            "--paragraphs", help="Split text files into paragraphs instead of lines."
        ),
    ] = False,
    tokens: Annotated[
        int | None, typer.Option(help="Maximum tokens per chunk; default: the model's.")
    ] = None,
    pairs: Annotated[
        list[Path] | None, typer.Option("--pairs", help=PAIRS_HELP)
    ] = None,
    json: Json = False,
) -> None:
    """Write an index of exactly these files; only changed files are embedded again.

    Example: keras-msd index notes.md faq.csv --column text --model runs/demo/student
    --out notes.index
    """
    from keras_msd import build_index

    encoder = open_source(model)
    built = build_index(
        encoder,
        files,
        out,
        column=column,
        paragraphs=paragraphs,
        limit=tokens,
        # What is no place, such as hf://org/name, means the same everywhere.
        model=str(Path(model).resolve()) if Path(model).exists() else model,
        threshold=calibrated(encoder, pairs),
    )
    result = {
        "index": str(out),
        "files": len(built.sources),
        "chunks": len(built),
        "bytes": sum(file.stat().st_size for file in out.iterdir()),
        "largest error of a cosine": built.meta.get("error", 0.0),
        "threshold": built.threshold,
    }
    output.show(result, json, output.lines_text)


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENCODER] QUERY [FILE]",
            help="Without --index: an encoder, the query, a UTF-8 file to search.",
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option("--index", help="Index folder, or .npz of `embed --out`."),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries", help="UTF-8 file, one query per line, instead of QUERY."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="Encoder, instead of the one stored in the index."
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Matches to show.")] = 5,
    threshold: Annotated[
        str | None, typer.Option(help="Lowest cosine: a number, or card (calibrated).")
    ] = None,
    json: Json = False,
) -> None:
    """Find the nearest texts to a query, in an index or in the lines of a file.

    Example: keras-msd search --index notes.index 'Wo ist der Hund?', or keras-msd
    search runs/demo/student 'Wo ist der Hund?' lines.txt
    """
    from keras_msd import search as find

    given = words or []
    if len(given) != 2 * (index is None) + (queries is None) or (model and not index):
        raise InputError(
            "Give ENCODER QUERY FILE, or QUERY and --index INDEX; --queries FILE takes "
            f"the place of QUERY. Received: {len(given)} words"
            f"{f', --index {index}' if index else ''}"
            f"{f', --queries {queries}' if queries else ''}."
            " Put a query of several words in quotes."
        )
    if queries is None:
        asked = [given[index is None]]
    else:
        asked = list(_lines(queries).values())
    if index is None:
        encoder = open_source(given[0], light=True)
        lowest = _lowest(threshold, encoder)
        lines = _lines(Path(given[-1]))
        places = list(lines)
        found: list[list[Any]] = [
            [it._replace(place=places[it.place]) for it in near if it.cosine >= lowest]
            for near in find(encoder, asked, lines.values(), top)
        ]
        table: Any = output.matches_table
    else:
        from keras_msd import Index

        opened = Index.open(index)
        encoder = _model_of(opened, model)
        lowest = _lowest(threshold, encoder, opened.threshold)
        found = opened.search(encoder, asked, top, lowest)
        table = output.found_table
    rows = [[one._asdict() for one in matches] for matches in found]
    if queries is None:
        output.show(rows[0], json, table)
        return
    answers = [
        {"query": query, "matches": matches}
        for query, matches in zip(asked, rows, strict=True)
    ]
    output.show(answers, json, partial(output.answers_text, table=table))


def _lines(path: Path) -> dict[int, str]:
    """Return the lines of a file that hold text by their places, from 0."""
    from keras_msd.data.readers.lines import read_texts

    texts = enumerate(read_texts(path))
    return {place: text for place, text in texts if text.strip()}


def calibrated(encoder: Any, pairs: Sequence[Path] | None) -> dict[str, Any] | None:
    """Return the threshold that files of translations give, None without any."""
    if not pairs:
        return None
    from keras_msd.data import read_pairs
    from keras_msd.evaluate import calibrate_threshold

    names = ", ".join(path.name for path in pairs)
    return calibrate_threshold(encoder, read_pairs(pairs), name=names)


def _model_of(index: Any, model: str | None) -> Any:
    """Return the model that was given, else the one that the index names."""
    if model:
        return open_source(model)
    named = index.meta.get("model")
    if named is None:
        raise InputError(f"`{index.path}` names no model. Give it with `--model`.")
    place = f"`{index.path}` names this model; give another place with `--model`."
    with explained(lambda error: f"{error} {place}", InputError):
        return open_source(named)


def _lowest(threshold: str | None, *known: Any) -> float:
    """Return the lowest cosine to show.

    Args:
        threshold: A number, "card" or None.
        *known: The model, and what the index knows, which comes first.
    """
    if threshold is None:
        return -1.0
    if threshold == CARD:
        model, *of_index = known
        of_card = getattr(model, "card", {}).get("threshold")
        found = next(filter(None, [*of_index, of_card]), None)
        if found is None:
            raise InputError(
                "Neither the index nor the model's card has a threshold. Give a "
                "number, or `--pairs` to `keras-msd index` or `keras-msd export`."
            )
        if found["cosine"] is None:
            raise InputError(
                f"At no cosine are {found['asked']:.0f} % of the answers right on "
                f"{found['set'] or 'the held-out pairs'}. Give a number."
            )
        return float(found["cosine"])
    try:
        return float(threshold)
    except ValueError as error:
        raise InputError(
            f"`--threshold` must be a number or {CARD}. Received: {threshold!r:.60}."
        ) from error
