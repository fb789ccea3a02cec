"""Natural language inference: a premise, a hypothesis and a label, by their names."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, nearest, utf8
from keras_msd.data.cleaning import visible
from keras_msd.data.readers.lines import read_lines, tabbed, unpacked
from keras_msd.data.readers.tables import json_object
from keras_msd.io.remote import as_path

CLASSES = ("entailment", "neutral", "contradiction")  # ids 0, 1, 2 as in common use
# Names of the columns: in SNLI, MultiNLI and XNLI; in others; in translations of XNLI.
COLUMNS = {
    "premise": ("sentence1", "premise"),
    "hypothesis": ("sentence2", "hypothesis", "hypo"),
    "label": ("gold_label", "label", "entailment_judgment"),
}
UNDECIDED = ("-", "-1")  # the annotators did not agree
OTHER_NAMES = {"contradictory": "contradiction"}  # in the translations of XNLI
FORM = '{"premise": ..., "hypothesis": ..., "label": ...}'


class Inferences(NamedTuple):
    """The content of a file of natural language inference.

    Attributes:
        rows: `(label, premise, hypothesis)`, labels as ids from 0.
        skipped: Number of rows that were skipped because the annotators did not agree.
    """

    rows: list[tuple[int, str, str]]
    skipped: int


def read_inference(path: str | Path, classes: Sequence[str] = CLASSES) -> Inferences:
    r"""Read a file of natural language inference, as TSV or JSON Lines.

    The first line of a TSV has the names of its columns; there is no quoting. Columns,
    or keys of JSON objects, are found by name: `sentence1`, `sentence2` and
    `gold_label` as in SNLI, MultiNLI and XNLI, or `premise`, `hypothesis` and `label`.
    Others are skipped. Rows with the label "-" (or -1) are skipped and counted. Control
    characters become blanks and invisible marks are removed, as in `normalize`.

    Args:
        path: The file, JSON Lines if its name ends in `.jsonl`; also `.gz`.
        classes: Names of the labels, in the order of their ids; those of ASSIN are
            "none", "entailment" and "paraphrase". A label is such a name, in any case,
            or an id.

    Raises:
        InputError: The file is missing or damaged, a column is missing, or a label is
            not a class.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("pets.tsv").write_text(
        ...     "gold_label\tsentence1\tsentence2\n"
        ...     "entailment\tA dog runs.\tAn animal runs.\n"
        ...     "-\tA dog runs.\tA dog is late.\n"
        ... )
        >>> msd.data.read_inference("pets.tsv")
        Inferences(rows=[(0, 'A dog runs.', 'An animal runs.')], skipped=1)
    """
    names = [_name(label) for label in classes]
    rows, skipped = [], 0
    for where, row in _rows(as_path(path)):
        premise, hypothesis, label = (_value(row, part, where) for part in COLUMNS)
        if not (isinstance(premise, str) and isinstance(hypothesis, str)):
            raise InputError(
                f"{where}: premise and hypothesis must be texts. Received: "
                f"{premise!r:.40} and {hypothesis!r:.40}. Repair the line, or remove "
                "it."
            )
        utf8(premise + hypothesis, where)
        if str(label) in UNDECIDED:
            skipped += 1
        else:
            number = _id(label, names, where)
            rows.append((number, visible(premise), visible(hypothesis)))
    return Inferences(rows, skipped)


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (file and line number, for messages; the row by names of columns)."""
    if unpacked(path).suffix == ".jsonl":
        for number, line in read_lines(path):
            yield f"`{path}`, line {number}", json_object(path, number, line, FORM)
        return
    lines = tabbed(path)
    _, names = next(lines)
    for where, fields in lines:
        if len(fields) != len(names):
            raise InputError(
                f"{where}: a line must have as many fields as the first, {len(names)}. "
                f"Received: {len(fields)}, {fields!r:.80}. Remove the line or the tabs "
                "inside its sentences."
            )
        yield where, dict(zip(names, fields, strict=True))


def _value(row: Mapping[str, Any], part: str, where: str) -> Any:
    """Return premise, hypothesis or label of a row."""
    for name in COLUMNS[part]:
        if name in row:
            return row[name]
    raise InputError(
        f"{where}: the column of the {part} must be called "
        f"{' or '.join(f'`{name}`' for name in COLUMNS[part])}. Received the columns: "
        f"{', '.join(map(repr, row)) or 'none'}. Rename it; a TSV has them in its "
        "first line."
    )


def _name(label: Any) -> str:
    name = str(label).lower()
    return OTHER_NAMES.get(name, name)


def _id(label: Any, names: Sequence[str], where: str) -> int:
    name = _name(label) if isinstance(label, str | int) else ""
    if name in names:
        return names.index(name)
    ids = [str(number) for number in range(len(names))]
    if name in ids:
        return ids.index(name)
    raise InputError(
        f"{where}: a label must be one of {', '.join(names)}, or its id from 0. "
        f"Received: {label!r:.40}. {nearest(name, names)} Repair it, or give other "
        "`classes`."
    )
