"""The command line: lists, runs, mistakes; nothing heavy is loaded before they show."""

import gzip
import re
import signal
import subprocess
import sys

import pytest
import typer
from command_line import fails, result, run
from small_recipe import write_place

from keras_msd import cli
from keras_msd.checks import InputError


@pytest.fixture
def place(tmp_path):
    return write_place(tmp_path)


@pytest.mark.parametrize("command", typer.main.get_command(cli.app).commands)
def test_help_has_an_example(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Example: keras-msd {command}" in " ".join(out.split())


def test_list(capsys):
    recipes = {one["name"]: one for one in result(capsys, "list")}
    assert recipes["msd_xlmr_b128_ru3"]["table"] == "1 and 2; 7 and 8"
    assert "lab" in recipes["xkd_lab"]["scales"]
    for name, about in recipes.items():
        assert about["title"] and about["cost"]
        command = about["command"].removesuffix(" --data DATA")
        assert command == f"keras-msd run {name}"
    _, out, _ = run(capsys, "list")
    (line,) = [line for line in out.splitlines() if line.startswith("msd_xlmr_xkd ")]
    assert line.split(maxsplit=4)[4].strip() == "XLM-R <- SBERT-paraphrases"


def test_list_says_what_one_recipe_is(capsys, place):
    _, out, _ = run(capsys, "list", "lealla_lab")
    assert out.startswith("AMS with and without distillation, real corpora\n")
    assert "student ams: table 3; 8, LEALLA-small, ams, at lab size\n" in out
    assert "command: keras-msd run lealla_lab --data DATA\n" in out
    _, out, _ = run(capsys, "list", place / "small.toml")
    assert f"command: keras-msd run {place / 'small.toml'} --data DATA\n" in out
    assert result(capsys, "list", "demo")["command"] == "keras-msd run demo"
    assert "Did you mean `xkd_lab`?" in fails(capsys, "list", "xkd_labb")
    assert "'search', 'serve'? See `keras-msd --help`." in fails(capsys, "serch")


def test_data_that_lacks_and_widths_that_differ(capsys, place):
    recipe, data, out = place / "small.toml", place / "data", place / "run"
    command = ("run", recipe, "--out", out)
    assert "`data_dir` (`--data`)" in fails(capsys, *command)
    error = fails(capsys, *command, "--data", place / "none")
    assert "none" in error and "does not exist" in error
    command = (*command, "--data", data)
    assert "more/parallel" in fails(capsys, *command, "--data", place / "more")
    for change, message in {
        'data.languages=["fr"]': "<corpus>.en-fr.tsv.gz",
        "student.hidden_dim=48": "`hidden_dim` is the assistant's",
        "teacher.dim=48": "`assistant.projection_dim = 48`",
        "student.unit_layers=3": "at most the assistant's layers",
    }.items():
        assert message in fails(capsys, *command, "--set", change)
    (data / "sts" / "examples.dev.de.tsv.gz").unlink()
    assert "examples.dev.de.tsv.gz" in fails(capsys, *command)
    assert not out.exists()  # nothing was begun


def test_no_traceback_from_the_program(tmp_path):
    command = [sys.executable, "-m", "keras_msd", "run", str(tmp_path / "x.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "x.toml" in done.stderr


def test_an_error_of_ours_keeps_its_traceback(monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main([])
    monkeypatch.setattr(cli, "app", lambda **_: (_ for _ in ()).throw(InputError("a")))
    assert fails(capsys) == "Error: a\n"
    full = OSError(28, "No space left on device", "runs/x")
    monkeypatch.setattr(cli, "app", lambda **_: (_ for _ in ()).throw(full))
    assert "No space left on device: 'runs/x'" in fails(capsys)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_run_that_is_stopped_says_how_to_go_on(monkeypatch, capsys, number, code):
    before = signal.getsignal(signal.SIGTERM)
    stop = lambda *_, **__: signal.raise_signal(number)  # noqa: E731
    monkeypatch.setattr("keras_msd.recipes.run", stop)
    ended, out, error = run(capsys, "run", "xkd_lab")
    assert (ended, out) == (code, "")
    assert error == (
        "Stopped. Finished work is kept: give the same command again to resume.\n"
    )
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("asked", [True, False])
def test_repair_is_asked_for(monkeypatch, capsys, asked):
    def stop(*_, repair, **__):
        raise InputError(f"repair={repair}")

    monkeypatch.setattr("keras_msd.recipes.run", stop)
    ended, _, error = run(capsys, "run", "xkd_lab", *["--repair"] * asked)
    assert (ended, error) == (2, f"Error: repair={asked}\n")


TURKISH = "Kapı açık, ışık sönük değil, {}."
ENGLISH = "The door is open and the light is not off, {}."
ROWS = [(ENGLISH.format(n), TURKISH.format(n)) for n in range(150)]
WORKBOOK = b"PK\3\4" + bytes(99)


def table_of(rows, head=("English", "Turkish")):
    return "".join("\t".join(row) + "\n" for row in [head, *rows])


# The content of a file of pairs, and the message; more of them: test_readers.py.
PAIRS = {
    "missing": (None, "x.en-tr.tsv` does not exist"),
    "Latin-5": (table_of(ROWS).encode("iso-8859-9"), "iconv -f ISO-8859-9 "),
    "swapped": (
        table_of([row[::-1] for row in ROWS], head=("Kapı.", "The door.")),
        "the sources must be English.*--columns 2,1",
    ),
    "sources equal": (
        table_of([(ENGLISH, row[1]) for row in ROWS], head=ROWS[0]),
        "sources must be sentences of their own.*2 in 151 rows.*--columns 1,3",
    ),
    "sides equal": (
        table_of([(row[0], row[0]) for row in ROWS], head=ROWS[0]),
        "must be other texts than the sources.*the same in 15[01] of 151 rows",
    ),
    "labels": (
        table_of([(row[0], "good") for row in ROWS], head=ROWS[0]),
        "the translations must be sentences of their own.*2 in 151 rows",
    ),
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
def test_wrong_files_of_pairs(tmp_path, capsys, nothing_heavy, name):
    content, message = PAIRS[name]
    path = made(tmp_path, "x.en-tr.tsv", content)
    assert re.search(message, distil_fails(capsys, path, "--out", tmp_path / "model"))
    for command in (("export", "tiny12", tmp_path / "art"), ("compare", "tiny12")):
        assert re.search(message, fails(capsys, *command, "--pairs", path))
    assert {*tmp_path.iterdir()} <= {path}


def test_few_pairs(tmp_path, capsys, nothing_heavy):
    path = made(tmp_path, "x.csv", table_of(ROWS[:50]))
    error = distil_fails(capsys, path, "--out", tmp_path / "model")
    assert "at least 100 pairs. Received: 50. Add" in error
    path = made(tmp_path, "y.csv", table_of(ROWS[:1]))
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
    path = made(tmp_path, "x.csv", table_of(ROWS, head=("source", "target")))
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
def test_wrong_files_of_lines(tmp_path, capsys, nothing_heavy, content, message):
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


def test_wrong_data_of_an_evaluation(tmp_path, capsys, nothing_heavy):
    command = ("evaluate", "tiny12", "--data", tmp_path, "--set", "tatoeba")
    assert "Found: none" in fails(capsys, *command)
    rows = gzip.compress(table_of(ROWS).encode())
    made(tmp_path, "tatoeba.tur-eng.tsv.gz", rows)
    error = fails(capsys, *command, "--languages", "xxx")
    assert "xxx" in error and "tur" in error
