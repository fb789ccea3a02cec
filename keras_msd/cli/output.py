"""What commands share: what they are given, and how their results are printed."""

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd.checks import InputError
from keras_msd.io.files import atomic_path
from keras_msd.report.runs import SIZES, number, plain

# Imported where they are used: `--help` needs neither, and a start shall be quick.
if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

SOLVED = (
    "All encoders find every translation: P@1 on these pairs cannot tell them apart. "
    "Compare the margins, or give more pairs or more similar sentences."
)
SCORES = ("cross_lingual", "monolingual", "retrieval", "held_out")


def calibrated(encoder: Any, pairs: Sequence[Path] | None) -> dict[str, Any] | None:
    """Return the threshold that files of translations give, None without any."""
    if not pairs:
        return None
    from keras_msd.data import read_pairs
    from keras_msd.evaluate import calibrate_threshold

    names = ", ".join(path.name for path in pairs)
    return calibrate_threshold(encoder, read_pairs(pairs), name=names)


def lines_with_text(path: Path) -> dict[int, str]:
    """Return the lines of a file that hold text by their places, from 0."""
    from keras_msd.data.readers.lines import read_texts

    texts = {place: it for place, it in enumerate(read_texts(path)) if it.strip()}
    if not texts:
        raise InputError(f"`{path}` must hold a line of text. Received: empty lines.")
    return texts


def without_none(**options: Any) -> dict[str, Any]:
    """Return the options that were given: the others are None."""
    return {name: value for name, value in options.items() if value is not None}


def codes(text: str) -> list[str]:
    """Split language codes at commas."""
    return [code.strip() for code in text.split(",") if code.strip()]


@contextmanager
def says_how_to_resume() -> Iterator[None]:
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


def show(value: Any, as_json: bool, human: Callable[[Any], Iterable[Any]]) -> None:
    """Print a result on stdout, as JSON or as `human` makes it for people."""
    if as_json:
        print(json_text(value))
        return
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    # Said here, as what is said to `print` does not reach the cells of tables.
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    for part in human(value):
        console.print(part, soft_wrap=True)


def json_text(value: Any) -> str:
    """Return JSON for stdout; in ASCII where that is not UTF-8."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return json.dumps(value, indent=2, ensure_ascii=ascii_only, sort_keys=True)


def lines_text(result: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yield a line for each entry; entries of an entry are indented."""
    for name, value in result.items():
        key = name.replace("_", " ")
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from lines_text(value, f"{indent}  ")
        else:
            shown = f"{value:.6g}" if isinstance(value, float) else value
            yield f"{indent}{key}: {shown}"


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


def recipes_text(found: Any) -> Iterator[Any]:
    """Yield a table of recipes for each paper, or all about a single one."""
    if isinstance(found, dict):
        yield from _recipe_text(found)
        return
    from rich.console import Group
    from rich.text import Text

    papers = groupby(found, key=lambda it: it["table"] and it["citation"])
    for paper, of_paper in papers:
        # In a group its line is broken where the terminal ends.
        yield Group(Text(paper or "No paper's row", overflow="fold"))
        rows = (row for recipe in of_paper for row in _recipe_rows(recipe))
        yield table(("name", "table", "row"), rows, left=3)
        yield ""
    yield "All about one: keras-msd list NAME"


def _recipe_rows(recipe: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    rows = {recipe["name"]: recipe} | {f"  {m}": r for m, r in recipe["rows"].items()}
    for name, row in rows.items():
        yield name, row["table"], row["row"] or recipe["title"]


def _recipe_text(about: dict[str, Any]) -> Iterator[str]:
    yield about["title"]
    lines = {key: about[key] for key in ("citation", "table", "row")}
    for model, row in about["rows"].items():
        lines[model] = f"table {row['table']}, {row['row']}"
    lines |= {key: about[key] for key in ("cost", "default_scale", "command")}
    lines["scales"] = ", ".join(about["scales"])
    yield from lines_text({key: text for key, text in lines.items() if text})


def run_text(result: dict[str, Any]) -> Iterator[Any]:
    """Yield what one run gave: a table of its scores, without those no row has."""
    yield f"{result['recipe']} at scale {result['scale']}{_half(result)}"
    scores = [key for key in SCORES if any(key in row for row in result["rows"])]
    rows = (
        [row["name"]]
        + ["" if row.get(size) is None else f"{row[size]:,}" for size in SIZES]
        + [number(row.get(key)) for key in scores]
        for row in result["rows"]
    )
    yield table(("", *map(plain, SIZES), *scores), rows)
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


def evaluation_text(scores: dict[str, Any]) -> Iterator[Any]:
    """Yield one table of scores, the chief one first, and tracks."""
    if "primary" not in scores:  # of mteb
        yield from lines_text(scores)
        return
    numbers = {key: value for key, value in scores.items() if isinstance(value, float)}
    ordered = {key: numbers[key] for key in [scores["primary"], *numbers]}
    rows = (ordered | scores.get("tracks", {})).items()
    heads = f"score{_half(scores)}", "x100"
    yield table(heads, ([key, number(value)] for key, value in rows))


def matches_text(found: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """Yield a table of matches, or each query and the table of its matches."""
    for answer in found:
        if "query" in answer:
            yield f"Query: {answer['query']}"
            yield from matches_text(answer["matches"])
            yield ""
    if not any("query" in answer for answer in found):
        rows = (
            [f"{it['cosine']:.4f}", str(it["place"] + 1), it["sentence"]]
            for it in found
        )
        yield table(("cosine", "line", "sentence"), rows, left=3)


def vectors_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield the vectors, one line each, or the file that holds them."""
    if "file" in result:
        yield from lines_text(result)
    for vector in result.get("vectors", []):
        yield " ".join(f"{number:.6f}" for number in vector)


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


def _half(result: dict[str, Any]) -> str:
    return f", half {result['part']}" if "part" in result else ""


def compared_text(result: dict[str, Any]) -> Iterator[Any]:
    """Yield a table with a row for each encoder, and what it cannot tell."""
    graded = ["STS"] if any("spearman" in it for it in result["encoders"]) else []
    heads = ["", "P@1", "95 %", "to target", "to source", "margin", "MRR", *graded]
    heads += ["dim", "MB", "ms alone", "ms in 64"]
    rows = []
    for one in result["encoders"]:
        low, high = one["interval"]
        stored = one["bytes"]
        rows.append(
            [
                one["name"],
                f"{one['precision']:.1f}",
                f"{low:.1f}-{high:.1f}",
                f"{one['source_to_target']:.1f}",
                f"{one['target_to_source']:.1f}",
                f"{one['margin']:.3f}",
                f"{one['mrr']:.1f}",
                *(f"{one['spearman']:.1f}" for _ in graded),
                str(one["dim"]),
                "" if stored is None else f"{stored / 1e6:.1f}",
                f"{one['milliseconds_1']:.2f}",
                f"{one['milliseconds_64']:.2f}",
            ]
        )
    shares = " and ".join(["P@1", "MRR", *graded])
    yield f"{result['pairs']:,} pairs. {shares} x100; ms: per sentence."
    yield table(heads, rows)
    if result["solved"]:
        yield SOLVED


def distil_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the printed report."""
    for code, counts in result["pairs"].items():
        parts = ", ".join(f"{number} to {use}" for use, number in counts.items())
        yield f"Pairs in {code}: {parts}"
        if lost := result["dropped"][code]:
            reasons = (f"{count} {name}" for name, count in lost.items())
            yield f"Dropped in {code}: {', '.join(reasons).replace('_', ' ')}"
    if any(result["texts"].values()):
        uses = (f"{number} to {use}" for use, number in result["texts"].items())
        yield f"Sentences: {', '.join(uses)}"
    if rows := result["encoders"]:
        from keras_msd.distillation.report import shown_columns

        columns, general = shown_columns(rows[0]), list(rows[0]["general"])
        heads = [f"{'On held-out text':<24}", f"{'MB':>8}"]
        heads += [f"{said:>11}" for said, _ in columns.values()]
        yield "".join([*heads, *(f"{'general ' + it:>22}" for it in general)])
        for row in rows:
            size = f"{row['bytes'] / 1e6:.1f}" if row["bytes"] else ""
            cells = [f"{row['name']:<24}", f"{size:>8}"]
            cells += [f"{row[name]:11{form}}" for name, (_, form) in columns.items()]
            yield "".join([*cells, *(f"{row['general'][it]:22.1f}" for it in general)])
    yield from (f"Result: {said}" for said in result["verdict"])
    yield f"Encoder: {result['encoder']}"
    yield f"File: {result['file']}, {result['bytes'] / 1e6:.1f} MB"
    yield f"Report: {result['report']}"


def mined_text(result: dict[str, Any]) -> Iterator[str]:
    """Yield the pairs, or where they are, and how many."""
    for row in result.pop("pairs", []):
        yield f"{row['score']:.4f}  {row['source']}  |  {row['target']}"
    yield from lines_text(result)
