"""Natural language inference: a premise, a hypothesis and a label, by their names."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, nearest, utf8
from keras_msd.data.cleaning import visible
from keras_msd.data.readers.lines import read_lines, unpacked
from keras_msd.data.readers.tables import json_object
from keras_msd.remote import as_path

CLASSES = ("entailment", "neutral", "contradiction")  # ids 0, 1, 2 as in common use
# What the columns are called: SNLI, MultiNLI and XNLI; others; translations in XNLI.
COLUMNS = {
    "premise": ("sentence1", "premise"),
    "hypothesis": ("sentence2", "hypothesis", "hypo"),
    "label": ("gold_label", "label", "entailment_judgment"),
}
UNDECIDED = ("-", "-1")  # of annotators who did not agree
OTHER_NAMES = {"contradictory": "contradiction"}  # in the translations of XNLI
FORM = '{"premise": ..., "hypothesis": ..., "label": ...}'


class Inferences(NamedTuple):
    """What a file of natural language inference holds.

    Attributes:
        rows: `(label, premise, hypothesis)`, labels as ids from 0.
        skipped: How many rows were left out, as their annotators did not agree.
    """

    rows: list[tuple[int, str, str]]
    skipped: int


def read_inference(path: str | Path, classes: Sequence[str] = CLASSES) -> Inferences:
    r"""Read a file of natural language inference, as TSV or JSON Lines.

    The columns of a TSV stand in its first line; it has no quoting. They, or the keys
    of a JSON object, are found by name: `sentence1`, `sentence2` and `gold_label` as in
    SNLI, MultiNLI and XNLI, or `premise`, `hypothesis` and `label`; others are passed
    over. Rows with the label "-" (or -1) are skipped and counted. Control characters
    become blanks and invisible marks go, as in `normalize`.

    Args:
        path: The file, JSON Lines if its name ends in `.jsonl`; also `.gz`.
        classes: Names of the labels, in the order of their ids; those of ASSIN are
            "none", "entailment" and "paraphrase". A label may be such a name, in
            capitals too, or an id.

    Raises:
        InputError: The file is missing or broken, a column is missing, or a label is
            no class.

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
    path = as_path(path)
    names = [_name(label) for label in classes]
    rows, skipped = [], 0
    for where, (premise, hypothesis, label) in _records(path):
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


def _records(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield (where it stands, for messages; premise, hypothesis and label)."""
    names: list[str] = []
    for number, line in read_lines(path):
        where = f"`{path}`, line {number}"
        if unpacked(path).suffix == ".jsonl":
            item: Mapping[str, Any] = json_object(path, number, line, FORM)
            yield where, [item[key] for key in _columns(item, where)]
        elif not names:
            names = line.split("\t")
            columns = _columns(names, where)
        else:
            fields = line.split("\t")
            if len(fields) != len(names):
                raise InputError(
                    f"{where}: a line must have as many fields as the first, "
                    f"{len(names)}. Received: {len(fields)}, {line!r:.80}. Remove the "
                    "line or the tabs inside its sentences."
                )
            yield where, [fields[names.index(name)] for name in columns]


def _columns(names: Any, where: str) -> list[str]:
    """Return the names of premise, hypothesis and label among those of the columns."""
    found = []
    for part, known in COLUMNS.items():
        name = next((name for name in known if name in names), None)
        if name is None:
            raise InputError(
                f"{where}: the column of the {part} must be called "
                f"{' or '.join(f'`{name}`' for name in known)}. Received the columns: "
                f"{', '.join(map(repr, names)) or 'none'}. Rename it; a TSV has them "
                "in its first line."
            )
        found.append(name)
    return found


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
