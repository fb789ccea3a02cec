"""What commands share: what they are given, and how their results are printed."""

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_msd.files import atomic_path
from keras_msd.report.score_rows import SIZES, digits_of, number, our_name, plain

# Imported where they are used: `--help` needs neither, and a start shall be quick.
if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

SCORES = ("cross_lingual", "monolingual", "retrieval", "held_out")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SOURCE_HELP = (
    "An encoder's folder, tiny12, small12, an artefact, hf://organisation/model, or a "
    'teacher: "default", a published SavedModel, an .npz file.'
)
Source = Annotated[str, typer.Argument(help=SOURCE_HELP)]


def open_source(source: str, light: bool = False) -> Any:
    """Return what `source` names; it has `encode`.

    Args:
        source: As `SOURCE_HELP` says.
        light: Nothing else is asked of it, so that a packaged bag of words needs no
            Keras.

    Raises:
        InputError: Nothing of these kinds is there, or it is damaged.
    """
    if light:
        from keras_msd.checkpoints import packaged

        if packaged.is_packaged(source) and packaged.is_bag_of_words(source):
            return packaged.PackagedEncoder(source)
    from keras_msd.teachers.teacher import (
        has_vectors_only,
        load_teacher,
        open_encoder,
    )

    return load_teacher(source) if has_vectors_only(source) else open_encoder(source)


def show(value: Any, as_json: bool, human: Callable[[Any], Iterable[Any]]) -> None:
    """Print a result on stdout, as JSON or as `human` makes it for people."""
    if as_json:
        print(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))
        return
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    # Said here, as what is said to `print` does not reach the cells of tables.
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    for part in human(value):
        console.print(part, soft_wrap=True)


@contextmanager
def goes_on() -> Iterator[None]:
    """End at Ctrl-C and SIGTERM with a line that says how to go on."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        print(
            "Stopped. Finished work is kept: give the same command again to resume.",
            file=sys.stderr,
        )
        if isinstance(stop, SystemExit):
            raise
        raise SystemExit(128 + signal.SIGINT) from stop
    finally:
        signal.signal(signal.SIGTERM, before)


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given: the others are None."""
    return {name: value for name, value in options.items() if value is not None}


def codes(text: str) -> list[str]:
    """Split language codes at commas."""
    return [code.strip() for code in text.split(",") if code.strip()]


def recipes_table(recipes: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Yield a table of recipes for each paper; under one of several rows, those."""
    from rich.console import Group
    from rich.text import Text

    heads = "name", "table", "row", "published, x100"
    for paper, of_paper in groupby(recipes, key=lambda it: it["table"] and it["paper"]):
        # A text by itself keeps its line, however wide the terminal is.
        yield Group(Text(paper or "No paper's row", no_wrap=False, overflow="fold"))
        yield table(heads, chain.from_iterable(map(_recipe_rows, of_paper)), left=4)
        yield ""
    yield "All about one: keras-msd list NAME"


def _recipe_rows(recipe: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    rows = {recipe["name"]: recipe} | {f"  {m}": r for m, r in recipe["rows"].items()}
    for name, row in rows.items():
        scores = row["expected"]
        averages = {key: scores[key] for key in scores if our_name(key) in SCORES}
        shown = scores_text(averages or scores)
        yield name, row["table"], row["row"] or recipe["title"], shown


def recipe_text(about: dict[str, Any]) -> Iterator[str]:
    """Yield what one recipe is: a line for each thing that it says."""
    yield about["title"]
    models = {
        f"  {model}": f"table {row['table']}, {row['row']}: "
        f"{scores_text(row['expected']) or 'no printed scores'}"
        for model, row in about["rows"].items()
    }
    default = about["default_scale"]
    scales = (f"{s} (the default)" if s == default else s for s in about["scales"])
    lines = {
        "Paper": about["paper"],
        "Table": about["table"],
        "Row": about["row"],
        "Published": scores_text(about["expected"]),
        **models,
        "Cost": about["cost"],
        "Scales": ", ".join(scales),
        "Command": about["command"],
    }
    yield from lines_text({key: text for key, text in lines.items() if text})


def scores_text(scores: dict[str, float]) -> str:
    """Return scores by name, in a line."""
    shown = ((key, number(value, digits_of(key))) for key, value in scores.items())
    return ", ".join(f"{plain(key)} {value}" for key, value in shown)


def rows_table(rows: Sequence[dict[str, Any]]) -> "Table":
    """Return the score rows of a run as a table, without scores that no row has."""
    scores = [key for key in SCORES if any(key in row for row in rows)]
    return table(
        ("", *map(plain, SIZES), *scores),
        (
            [row["name"]]
            + ["" if row.get(size) is None else f"{row[size]:,}" for size in SIZES]
            + [number(row.get(key)) for key in scores]
            for row in rows
        ),
    )


def run_text(result: dict[str, Any]) -> Iterator[Any]:
    """Yield what one run gave."""
    yield f"{result['recipe']} at scale {result['scale']}{_half(result)}"
    yield rows_table(result["rows"])
    if result["published"]:
        yield f"Published (x100): {scores_text(result['published'])}"
    parts = result["timings"]["parts"].items()
    spent = ", ".join(f"{plain(part)} {seconds / 60:.1f}" for part, seconds in parts)
    yield f"Minutes: {spent}"
    for name, share in result["measured"].items():
        yield f"{plain(name)}: {share:.1f} % of the assistant"
    yield f"Report: {result['report']}"


def runs_text(results: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Yield one table of runs and the errors of those that failed."""
    rows, errors = [], []
    for result in results:
        name, scale, folder = (result[key] for key in ("recipe", "scale", "folder"))
        scored = [row for row in result.get("rows", []) if "cross_lingual" in row]
        score = number(scored[-1]["cross_lingual"]) if scored else "failed"
        seconds = number(result.get("timings", {}).get("seconds"))
        rows.append([name, scale, score, seconds, folder])
        if "error" in result:
            errors.append(f"{name} failed: {result['error']}")
    yield table(("recipe", "scale", "cross-lingual", "seconds", "folder"), rows)
    yield from errors


def scores_table(scores: dict[str, Any]) -> Iterator[Any]:
    """Yield one table of scores, the chief one first, and tracks."""
    numbers = {key: value for key, value in scores.items() if isinstance(value, float)}
    ordered = {key: numbers[key] for key in [scores["primary"], *numbers]}
    rows = (ordered | scores.get("tracks", {})).items()
    heads = f"score{_half(scores)}", "x100"
    yield table(heads, ([key, number(value)] for key, value in rows))


def matches_table(matches: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Yield one table of matches."""
    rows = (
        [f"{match['cosine']:.4f}", str(match["place"] + 1), match["sentence"]]
        for match in matches
    )
    yield table(("cosine", "line", "sentence"), rows, left=3)


def found_table(found: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Yield one table of chunks of an index."""
    rows = (
        [f"{one['cosine']:.4f}", f"{one['file']}:{one['line']}", one["text"]]
        for one in found
    )
    yield table(("cosine", "place", "text"), rows, left=3)


def answers_text(
    answers: Sequence[dict[str, Any]], table: Callable[[Any], Iterable[Any]]
) -> Iterator[Any]:
    """Yield each query and the table of its matches."""
    for answer in answers:
        yield f"Query: {answer['query']}"
        yield from table(answer["matches"])
        yield ""


def vectors_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield the vectors, one line each, or the file that holds them."""
    if "file" in result:
        yield f"{result['sentences']} x {result['dim']} numbers in {result['file']}"
        return
    for vector in result["vectors"]:
        yield " ".join(f"{number:.6f}" for number in vector)


def export_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield what an export wrote and how close it is to its encoder."""
    from keras_msd.export.card import score_title

    weights = result["quantize"] or "float32"
    yield f"{result['artefact']}: {result['format']}, {weights}, {result['bytes']:,} B"
    parity, sts = result["parity"], result["parity"]["sts"]
    yield (
        f"Cosine to the encoder: {parity['min_cosine']:.6f} at the least, "
        f"{parity['mean_cosine']:.6f} on average; nearest neighbours kept: "
        f"{100 * parity['neighbours_kept']:.1f} % of {parity['sentences']}"
    )
    for name, before in sts["before"].items():
        after = sts["after"][name]
        yield f"{score_title(name)} on {sts['set']}: {before:.2f}, now {after:.2f}"


def lines_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield one line for each entry."""
    for key, value in result.items():
        yield f"{key}: {value}"


def write_vectors(path: Path, sentences: Sequence[str], vectors: "np.ndarray") -> None:
    """Write a .npz file for `VectorFile`, complete or not at all.

    An array of strings would give every sentence the room of the longest.
    """
    import numpy as np

    encoded = [sentence.encode() for sentence in sentences]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    joined = np.frombuffer(b"".join(encoded), np.uint8)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, text=joined, ends=ends, vectors=vectors)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> "Table":
    """Return a table whose first columns begin at the left; the first is not broken."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, head in enumerate(heads):
        justify: Any = "left" if place < left else "right"
        table.add_column(head, justify=justify, no_wrap=place == 0)
    for row in rows:
        table.add_row(*row)
    return table


def _half(result: dict[str, Any]) -> str:
    return f", half {result['part']}" if "part" in result else ""
