"""What the command line prints: tables for people, JSON for machines."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from keras_msd.checks import InputError, existing_file
from keras_msd.files import atomic_path

SCORES = ("cross_lingual", "monolingual", "retrieval")


def complain(error: Exception) -> None:
    """Print an error on stderr, unwrapped so that paths stay whole."""
    print(f"Error: {error}", file=sys.stderr)


def show(value: Any, as_json: bool, human: Callable[[Any], Any]) -> None:
    """Print a result on stdout, as JSON or as `human` makes it for people."""
    if as_json:
        print(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    for part in human(value):
        console.print(part, markup=False, highlight=False, soft_wrap=True)


def recipes_table(recipes: Sequence[dict[str, Any]]) -> Iterable[Any]:
    """Yield one table of recipes; under a recipe of several rows, those."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for head in ("paper", "table", "row", "scales"):
        table.add_column(head)
    for head in ("cross-lingual", "monolingual"):
        table.add_column(head, justify="right")
    for one in recipes:
        paper = one["paper"].split(",")[0] if one["table"] else ""
        scales = ", ".join(one["scales"])
        about = (one["name"], paper, one["table"], one["row"], scales)
        table.add_row(*about, *_published(one["expected"]))
        for model, row in one.get("rows", {}).items():
            about = (f"  {model}", "", row["table"], row["row"], "")
            table.add_row(*about, *_published(row["expected"]))
    yield table


def _published(expected: dict[str, float]) -> tuple[str, str]:
    cross, mono = expected.get("cross_lingual"), expected.get("monolingual")
    return _number(cross), _number(mono)


def rows_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the score rows of a run as a table, without scores that no row has."""
    scores = [key for key in SCORES if any(key in row for row in rows)]
    table = _table("", "parameters", "bytes", "table bytes", *scores)
    for row in rows:
        sizes = [row.get(key) for key in ("parameters", "bytes", "table_bytes")]
        table.add_row(
            row["name"],
            *("" if size is None else f"{size:,}" for size in sizes),
            *(_number(row.get(key)) for key in scores),
        )
    return table


def run_text(result: dict[str, Any]) -> Iterable[Any]:
    """Yield what one run gave."""
    yield f"{result['recipe']} at scale {result['scale']}"
    yield rows_table(result["rows"])
    if result["published"]:
        shown = ", ".join(f"{k} {v:g}" for k, v in result["published"].items())
        yield f"Published (x100): {shown}"
    parts, budget = result["timings"]["parts"], result["budget"]
    spent = ", ".join(_minutes(part, s, budget.get(part)) for part, s in parts.items())
    yield f"Minutes: {spent}"
    for name, share in result["measured"].items():
        yield f"{name.replace('_', ' ')}: {share:.1f} % of the assistant"
    yield f"Report: {result['report']}"


def runs_text(results: Sequence[dict[str, Any]]) -> Iterable[Any]:
    """Yield one table of runs and the errors of those that failed."""
    table = _table("recipe", "scale", "cross-lingual", "seconds", "folder")
    for one in results:
        rows = [row for row in one.get("rows", []) if "cross_lingual" in row]
        table.add_row(
            one["recipe"],
            one["scale"],
            _number(rows[-1]["cross_lingual"]) if rows else "failed",
            _number(one.get("timings", {}).get("seconds")),
            one["folder"],
        )
    yield table
    for one in results:
        if "error" in one:
            yield f"{one['recipe']} failed: {one['error']}"


def demo_text(result: dict[str, Any]) -> Iterable[Any]:
    """Yield the demo: scores, the search, what should have held and did not."""
    yield from run_text(result)
    yield f"Query: {result['query']}"
    for match in result["matches"]:
        yield f"  {match['cosine']:.3f}  {match['sentence']}"
    for rule in result["broken"]:
        yield f"Does not hold: {rule}"


def scores_table(scores: dict[str, Any]) -> Iterable[Any]:
    """Yield one table of scores, the chief one first, and tracks."""
    numbers = {key: one for key, one in scores.items() if isinstance(one, float)}
    ordered = {key: numbers[key] for key in [scores["primary"], *numbers]}
    table = _table("score", "x100")
    for key, value in (ordered | scores.get("tracks", {})).items():
        table.add_row(key, _number(value))
    yield table


def matches_table(matches: Sequence[dict[str, Any]]) -> Iterable[Any]:
    """Yield one table of matches."""
    table = _table("cosine", "line", "sentence")
    for one in matches:
        table.add_row(f"{one['cosine']:.4f}", str(one["place"] + 1), one["sentence"])
    yield table


def vectors_text(result: dict[str, Any]) -> Iterable[str]:
    """Yield the vectors, one line each, or the file that holds them."""
    if "file" in result:
        yield f"{result['sentences']} x {result['dim']} numbers in {result['file']}"
        return
    for vector in result["vectors"]:
        yield " ".join(f"{number:.6f}" for number in vector)


def export_text(result: dict[str, Any]) -> Iterable[str]:
    """Yield what an export wrote and how close it is to its encoder."""
    from keras_msd.export.card_text import score_title

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


def lines_text(result: dict[str, Any]) -> Iterable[str]:
    """Yield one line for each entry."""
    for key, value in result.items():
        yield f"{key}: {value}"


def read_lines(path: Path) -> list[str]:
    """Read a UTF-8 file, a sentence a line; raise `InputError` if it is not UTF-8."""
    lines = []
    with open(existing_file(path, "text file"), "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                lines.append(line.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}, line {number}: not UTF-8 at byte {error.start} of the "
                    "line. Convert the file to UTF-8."
                ) from error
    return lines


def write_vectors(path: Path, sentences: Sequence[str], vectors: np.ndarray) -> None:
    """Write a .npz file for `VectorFile`, complete or not at all.

    An array of strings would give every sentence the room of the longest.
    """
    encoded = [sentence.encode() for sentence in sentences]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
    text = np.frombuffer(b"".join(encoded), np.uint8)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, text=text, ends=ends, vectors=vectors)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _minutes(part: str, seconds: float, budget: float | None) -> str:
    spent = f"{part.replace('_', ' ')} {seconds / 60:.1f}"
    return spent if budget is None else f"{spent} of {budget:g}"
