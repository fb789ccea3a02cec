"""Files of a new user: each mistake is named before anything heavy is loaded."""

import gzip
import re
import sys

import pytest
from command_line import fails, run

TURKISH = "Kapı açık, ışık sönük değil, {}."
ENGLISH = "The door is open and the light is not off, {}."
ROWS = [(ENGLISH.format(n), TURKISH.format(n)) for n in range(150)]
WORKBOOK = b"PK\3\4" + bytes(99)


def table(rows, mark="\t", head=("English", "Turkish")):
    return "".join(mark.join(row) + "\n" for row in [head, *rows])


# Of each file of pairs: its name, its content, and the message.
PAIRS = {
    "missing": ("x.en-tr.tsv", None, "x.en-tr.tsv` does not exist"),
    "empty": ("x.en-tr.tsv", "", "is empty"),
    "header alone": ("x.en-tr.csv", table([]), "names of columns alone"),
    "semicolons": (
        "x.en-tr.tsv",
        table(ROWS, ";"),
        "';' separates the columns, give.*--format csv",
    ),
    "UTF-16": ("x.en-tr.tsv", table(ROWS).encode("utf-16"), "iconv -f UTF-16 "),
    "Latin-5": ("x.csv", table(ROWS).encode("iso-8859-9"), "iconv -f ISO-8859-9 "),
    "swapped": (
        "x.en-tr.tsv",
        table([row[::-1] for row in ROWS], head=("Kapı.", "The door.")),
        "the sources must be English.*--columns 2,1",
    ),
    "sources equal": (
        "x.en-tr.tsv",
        table([(ENGLISH, row[1]) for row in ROWS], head=ROWS[0]),
        "the sources must be sentences of their own.*2 in 151 rows.*--columns 1,3",
    ),
    "sides equal": (
        "x.en-tr.tsv",
        table([(row[0], row[0]) for row in ROWS], head=ROWS[0]),
        "must be other texts than the sources.*the same in 15[01] of 151 rows",
    ),
    "labels": (
        "x.en-tr.tsv",
        table([(row[0], "good") for row in ROWS], head=ROWS[0]),
        "the translations must be sentences of their own.*2 in 151 rows",
    ),
    "workbook": ("x.en-tr.csv", WORKBOOK, "Excel workbook.*as CSV"),
    "half": ("x.en-tr.tsv.gz", gzip.compress(bytes(9999))[:-9], "truncated gzip"),
}


def made(folder, name, content):
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder / name


@pytest.fixture
def nothing_heavy(monkeypatch):
    """Let imports fail that load Keras or a model."""
    for name in ("keras_msd.distillation.distil", "keras_msd.load"):
        monkeypatch.setitem(sys.modules, name, None)


def distil_fails(capsys, *arguments):
    """Return the message of `distil`, which first says what it is going to do."""
    code, out, error = run(capsys, "distil", *arguments)
    assert (code, out) == (2, "") and "Traceback" not in error
    begun, message = error.splitlines()
    assert begun.startswith("Making an encoder in") and message.startswith("Error: ")
    return message


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(tmp_path, capsys, nothing_heavy, name):
    file, content, message = PAIRS[name]
    path = made(tmp_path, file, content)
    assert re.search(message, distil_fails(capsys, path, "--out", tmp_path / "model"))
    for command in (
        ("export", "tiny12", tmp_path / "art"),
        ("compare", "tiny12"),
    ):
        assert re.search(message, fails(capsys, *command, "--pairs", path))
    assert {*tmp_path.iterdir()} <= {path}


def test_few_pairs(tmp_path, capsys, nothing_heavy):
    path = made(tmp_path, "x.csv", table(ROWS[:50]))
    error = distil_fails(capsys, path, "--out", tmp_path / "model")
    assert "at least 100 pairs. Received: 50. Add" in error
    path = made(tmp_path, "y.csv", table(ROWS[:1]))
    error = fails(capsys, "compare", "tiny12", "--pairs", path)
    assert "at least 2 pairs. Received: 1. Add" in error


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("Turkish", "Received: language='Turkish'. Did you mean `tr`"),
        ("xx", "Received: language='xx'. Look it up"),
        ("jp", "Did you mean `ja`"),
        ("TR", "Did you mean `tr`"),
    ],
)
def test_an_unknown_language(tmp_path, capsys, nothing_heavy, code, message):
    path = made(tmp_path, "x.csv", table(ROWS, head=("source", "target")))
    options = ("--out", tmp_path / "m", "--language", code)
    assert message in distil_fails(capsys, path, *options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        ("", "is empty"),
        ("Kapı.\n".encode("utf-16"), "iconv -f UTF-16 "),
        (TURKISH.encode("iso-8859-9"), "iconv -f ISO-8859-9 "),
        (WORKBOOK, "Excel workbook"),
        (" \n\n", "must hold"),
    ],
)
def test_lines(tmp_path, capsys, nothing_heavy, content, message):
    path = made(tmp_path, "lines.txt", content)
    commands = [
        ("search", "tiny12", "door", path),
        ("mine", path, "-e", "tiny12"),
        ("trim", "tiny12", tmp_path / "small", "--texts", path),
    ]
    if content != " \n\n":  # `embed` gives a vector to every line
        commands.append(("embed", "tiny12", "--input", path))
    for command in commands:
        assert message in fails(capsys, *command)


def test_an_evaluation(tmp_path, capsys, nothing_heavy):
    command = ("evaluate", "tiny12", "--data", tmp_path, "--set", "tatoeba")
    assert "Found: none" in fails(capsys, *command)
    rows = gzip.compress(table(ROWS).encode())
    made(tmp_path, "tatoeba.tur-eng.tsv.gz", rows)
    error = fails(capsys, *command, "--languages", "xxx")
    assert "xxx" in error and "tur" in error
