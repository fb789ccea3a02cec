"""What people and programs get from any command: JSON, completion, widths, charsets."""

import io
import json
import os
import subprocess
import sys

import pytest
from command_line import fails, result, run

import keras_msd
from keras_msd import cli
from keras_msd.cli import output
from keras_msd.export import FORMATS
from keras_msd.recipes.load import recipe_names
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

# The parser itself imports pydantic.
SLOW = {"jax", "keras", "matplotlib", "numpy", "scipy", "tensorflow"}
MAIN = """
import sys
from keras_msd.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"keras-msd {keras_msd.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "nothing"], "There is no recipe `nothing`"),
        (["run", "--nope"], "No such option: --nope"),
        (["run"], "Missing argument"),
        (["no-command"], "No such command"),
        (["run", "demo", "--checkpoint-minutes", "soon"], "Invalid value for"),
        (["report", "nowhere"], "nowhere"),
    ],
)
def test_errors_under_json_are_json(capsys, arguments, message):
    code, out, error = run(capsys, *arguments, "--json")
    assert (code, error) == (2, "")
    assert message in json.loads(out)["error"]
    code, out, error = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in error


def test_a_misused_command_names_its_help(capsys):
    words = {"keras-msd push": ["push"], "keras-msd": ["run", "--data"]}
    for command, arguments in words.items():
        _, out, _ = run(capsys, arguments[0], "--json", *arguments[1:])
        assert json.loads(out)["error"].endswith(f" See `{command} --help`.")
        _, _, error = run(capsys, *arguments)
        assert error.endswith(f" See `{command} --help`.\n")


def test_words_that_no_path_can_hold(capsys):
    assert "An argument contains NUL" in fails(capsys, "report", "a\0b")
    error = fails(capsys, "report", "a" * 300)
    assert "File name too long" in error and "Check the path" in error


def test_an_exit_code_outlives_json(capsys, monkeypatch):
    failed = [{"recipe": "a", "scale": "b", "folder": "c", "error": "d"}]
    monkeypatch.setattr("keras_msd.recipes.run_all", lambda *_, **__: failed)
    code, out, _ = run(capsys, "run-all", "--json")
    assert (code, json.loads(out)) == (1, failed)


def completed(words):
    """Return what the shell would be given, and the modules that it took."""
    asked = {
        "COMP_WORDS": f"keras-msd {words}",
        "COMP_CWORD": str(len(words.split())),
        "_KERAS_MSD_COMPLETE": "complete_bash",
    }
    command = [sys.executable, "-c", MAIN]
    done = subprocess.run(
        command, env=os.environ | asked, capture_output=True, text=True
    )
    return done.stdout.split(), set(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("run msd_xl", [name for name in recipe_names() if name.startswith("msd_xl")]),
        ("run-all demo xkd", [n for n in recipe_names() if n.startswith("xkd")]),
        ("list dem", ["demo"]),
        ("export a b --format o", [name for name in FORMATS if name[0] == "o"]),
        ("evaluate a --set sts", ["stsb", "sts2017-extended"]),
    ],
)
def test_the_shell_completes_names_at_once(words, wanted):
    names, modules = completed(words)
    assert set(wanted) <= set(names)
    assert all(name.startswith(words.split()[-1]) for name in names)
    assert "typer" in modules
    assert modules & SLOW == set()


def test_list_takes_a_part_of_names(capsys):
    wanted = {name for name in recipe_names() if "lealla" in name}
    assert {about["name"] for about in result(capsys, "list", "lealla")} == wanted
    _, out, _ = run(capsys, "list", "lealla_lab")  # a whole name, and part of another
    assert "command: keras-msd run lealla_lab" in out


LINES = [
    "面包店在哪里？",
    "Der Bäcker",
    "Пекарня",
    "🐈 \u2028 ☕",
    "[red]rose[/red] :cat:",
]


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    tiny_encoder(tokenizer, num_layers=0).save(folder / "encoder")
    (folder / "lines.txt").write_text("\n".join(LINES), encoding="utf-8")
    return folder


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def shown(monkeypatch, charset, *arguments, kind=io.TextIOWrapper):
    """Return the exit code and what was written to stdout and stderr."""
    streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, kind(stream, charset, "strict"))
    with pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    sys.stdout.flush(), sys.stderr.flush()
    out, error = (it.getvalue().decode(charset) for it in streams.values())
    return end.value.code or 0, out, error


def test_the_list_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")  # of 80 columns
    _, out, _ = shown(monkeypatch, "utf-8", "list", kind=Terminal)
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    assert set(recipe_names()) <= {line.split()[0] for line in lines if line.split()}


@pytest.mark.parametrize("charset", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("as_json", [True, False])
def test_every_letter_is_shown_or_written_as_a_number(
    monkeypatch, folder, charset, as_json
):
    command = "search", folder / "encoder", "面包店", folder / "lines.txt"
    code, out, error = shown(monkeypatch, charset, *command, *["--json"] * as_json)
    assert (code, error) == (0, "")
    if as_json:
        assert {one["sentence"] for one in json.loads(out)} == {*LINES}
    else:
        bakery = LINES[0].encode(charset, "backslashreplace").decode(charset)
        assert bakery in out and LINES[-1] in out


@pytest.mark.parametrize("charset", ["ascii", "cp1252"])
def test_messages_and_help(monkeypatch, folder, charset):
    missing = folder / "fehlt: 面包.txt"
    code, out, error = shown(monkeypatch, charset, "embed", "x", "--input", missing)
    assert (code, out) == (2, "") and "\\u9762\\u5305.txt" in error
    command = "embed", "x", "--input", missing, "--json"
    code, out, _ = shown(monkeypatch, charset, *command)
    assert code == 2 and str(missing) in json.loads(out)["error"]
    for command in (["--help"], ["distil", "--help"], ["list"], ["list", "demo"]):
        code, out, error = shown(monkeypatch, charset, *command)
        assert code == 0 and out, error


def test_an_argument_that_is_no_text(monkeypatch, folder):
    command = "search", folder / "encoder", "half \udcff", folder / "lines.txt"
    code, out, error = shown(monkeypatch, "utf-8", *command)
    assert (code, out) == (2, "") and "must be Unicode" in error


def test_results_for_people(capsys):
    row = {"name": "student", "parameters": 1234, "cross_lingual": 56.78}
    found = {
        "recipe": "small", "scale": "lab", "rows": [row],
        "measured": {"kept_student": 98.0}, "timings": {"parts": {"stages": 90.0}},
        "report": "r.html",
    }  # fmt: skip
    output.show(found, False, output.run_text)
    text = capsys.readouterr().out
    for shown in ("1,234", "56.8", "stages 1.5", "98.0 % of the assistant"):
        assert shown in text
    failed = {"recipe": "x", "scale": "smoke", "folder": "f", "error": "E: why"}
    assert "E: why" in list(output.runs_text([failed]))[-1]
