import gzip
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from command_line import fails, run

from keras_msd import cli, load_encoder
from keras_msd.checks import InputError
from keras_msd.cli import commands
from keras_msd.cli import output as cli_output
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

COMMANDS = [
    "list", "run", "run-all", "compare", "evaluate", "embed", "search", "export",
    "report", "trim",
]  # fmt: skip
RECIPE = """
extends = "_shared"
[recipe]
name = "small"
title = "Small"
scales = ["smoke"]
[student]
unit_layers = 1
bottleneck_dim = 8
[smoke.data]
kind = "folder"
languages = ["de"]
"""


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    tiny_encoder().save(folder)
    return folder


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def write_rows(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")


@pytest.fixture
def data(tmp_path):
    """Write a data folder that a run accepts until it reads the pairs."""
    folder = tmp_path / "data"
    rows = [f"The cat number {i}\tDie Katze Nummer {i}".encode() for i in range(40)]
    for split in ("train", "dev"):
        write_rows(folder / "parallel" / split / "small.en-de.tsv.gz", rows)
    for language in ("en", "de"):
        rows = [f"{i}\tone{' one' * i}\ttwo{' two' * i}".encode() for i in range(5)]
        write_rows(folder / "sts" / f"examples.dev.{language}.tsv.gz", rows)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(capsys, command):
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert f"Example: keras-msd {command}" in " ".join(out.split())


def test_list(capsys):
    code, out, _ = run(capsys, "list", "--json")
    recipes = {one["name"]: one for one in json.loads(out)}
    assert code == 0
    assert recipes["msd_xlmr_b128_ru3"]["table"] == "1 and 2; 7 and 8"
    assert "lab" in recipes["xkd_lab"]["scales"]
    _, out, _ = run(capsys, "list")
    assert all(name in out for name in recipes)
    (line,) = [line for line in out.splitlines() if line.startswith("msd_xlmr_xkd ")]
    assert line.split(maxsplit=4)[4].strip() == "XLM-R <- SBERT-paraphrases"


def test_list_says_what_one_recipe_is(capsys, recipe):
    _, out, _ = run(capsys, "list", "lealla_lab")
    assert out.startswith("AMS with and without distillation, real corpora\n")
    assert "citation: Mao and Nakagawa, LEALLA" in out and "table: 3; 8\n" in out
    assert "student ams: table 3; 8, LEALLA-small, ams, at lab size\n" in out
    assert "cost: 7 minutes a student" in out and "default scale: lab\n" in out
    assert "command: keras-msd run lealla_lab --data DATA\n" in out
    _, out, _ = run(capsys, "list", "msd_minilm_ru3")
    assert "row: MiniLM <- SBERT-paraphrases, no bottleneck, RU 3\n" in out
    _, out, _ = run(capsys, "list", recipe)
    assert f"command: keras-msd run {recipe} --data DATA\n" in out
    _, out, _ = run(capsys, "list", "demo", "--json")
    about = json.loads(out)
    assert (about["name"], about["command"]) == ("demo", "keras-msd run demo")
    assert "Did you mean `xkd_lab`?" in fails(capsys, "list", "xkd_labb")
    assert "'search', 'serve'? See `keras-msd --help`." in fails(capsys, "serch")


def test_every_recipe_says_what_it_costs_and_how_it_is_run(capsys):
    _, out, _ = run(capsys, "list", "--json")
    for about in json.loads(out):
        assert about["title"] and about["cost"]
        command = about["command"].removesuffix(" --data DATA")
        assert command == f"keras-msd run {about['name']}"


def test_missing_data(capsys, recipe, data, tmp_path):
    out = tmp_path / "run"
    assert "`data_dir` (`--data`)" in fails(capsys, "run", recipe, "--out", out)
    error = fails(capsys, "run", recipe, "--out", out, "--data", tmp_path / "none")
    assert "none" in error and "does not exist" in error
    command = ("run", recipe, "--out", out, "--data", data)
    assert "more/parallel" in fails(capsys, *command, "--data", tmp_path / "more")
    error = fails(capsys, *command, "--set", 'data.languages=["fr"]')
    assert "<corpus>.en-fr.tsv.gz" in error and "parallel/train" in error
    (data / "sts" / "examples.dev.de.tsv.gz").unlink()
    assert "examples.dev.de.tsv.gz" in fails(capsys, *command)
    assert not out.exists()  # nothing was begun


def test_widths_that_differ(capsys, recipe, data, tmp_path):
    command = ("run", recipe, "--out", tmp_path / "run", "--data", data)
    error = fails(capsys, *command, "--set", "student.hidden_dim=48")
    assert "`hidden_dim` is the assistant's" in error
    error = fails(capsys, *command, "--set", "teacher.dim=48")
    assert "teacher `hashed-words` 48, assistant `new` 32" in error
    assert "`assistant.projection_dim = 48`" in error
    error = fails(capsys, *command, "--set", "student.unit_layers=3")
    assert "must divide `num_layers`" in error
    assert not (tmp_path / "run").exists()


def test_no_traceback_from_the_program(tmp_path):
    command = [sys.executable, "-m", "keras_msd", "run", str(tmp_path / "x.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "x.toml" in done.stderr


def test_embed(capsys, encoder_folder, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("The cat sleeps.\n", encoding="utf-8")
    command = ("embed", encoder_folder, "A dog.", "--input", lines)
    _, out, _ = run(capsys, *command, "--json")
    vectors = np.array(json.loads(out)["vectors"])
    assert vectors.shape == (2, 16)
    run(capsys, *command, "--out", tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz") as file:
        assert file["text"].tobytes() == b"A dog.The cat sleeps."
        np.testing.assert_allclose(file["vectors"], vectors, atol=1e-6)
    _, out, _ = run(capsys, *command, "--truncate-dim", 3, "--json")
    np.testing.assert_allclose(json.loads(out)["vectors"], vectors[:, :3], atol=1e-5)
    assert "at most 16" in fails(capsys, *command, "--truncate-dim", 17)
    assert "nothing to embed" in fails(capsys, "embed", encoder_folder)
    asking = load_encoder(encoder_folder, prompts={"query": "A cat. "})
    asking.save(tmp_path / "asking")
    command_of = ("embed", tmp_path / "asking", "--json")
    _, out, _ = run(capsys, *command_of, "A dog.", "--prompt-name", "query")
    _, same, _ = run(capsys, *command_of, "A cat. A dog.")
    assert json.loads(out)["vectors"] == json.loads(same)["vectors"]
    options = ("--prompt-name", "query")
    assert "'document'" in fails(capsys, *command_of[:2], "a", options[0], "x")
    known = tmp_path / "known.npz"
    np.savez(known, sentences=np.array(["a"]), vectors=np.ones((1, 4), "float32"))
    assert "without prompts" in fails(capsys, "embed", known, "a", *options)
    lines.write_bytes(b"good\nbad \xff\n")
    error = fails(capsys, *command)
    assert "line 2: text must be UTF-8. Received: byte 0xff at position 5" in error


def test_a_teacher_is_scored_too(capsys, encoder_folder, data, tmp_path):
    lines = tmp_path / "lines.txt"
    words = [(name, count) for name in ("one", "two") for count in range(5)]
    lines.write_text("".join(f"{name}{f' {name}' * count}\n" for name, count in words))
    run(capsys, "embed", encoder_folder, "--input", lines, "--out", tmp_path / "t.npz")
    scores = ("--data", data, "--languages", "de", "--sts", "examples", "--json")
    _, own, _ = run(capsys, "evaluate", encoder_folder, *scores)
    _, file, _ = run(capsys, "evaluate", tmp_path / "t.npz", *scores)
    assert json.loads(file)["tracks"] == pytest.approx(json.loads(own)["tracks"])
    assert "options of `examples` are: `part`. Received: queries" in fails(
        capsys, "evaluate", encoder_folder, *scores[:-1], "--queries", 5
    )


def test_sentences_are_shown_as_they_are(capsys):
    match = {"cosine": 0.5, "place": 0, "sentence": "A [red]rose[/red] :cat:"}
    cli_output.show([match], False, cli_output.matches_text)
    assert match["sentence"] in capsys.readouterr().out


def test_results_for_people(capsys):
    row = {"name": "student", "parameters": 1234, "cross_lingual": 56.78}
    result = {
        "recipe": "small", "scale": "lab", "rows": [row],
        "measured": {"kept_student": 98.0}, "timings": {"parts": {"stages": 90.0}},
        "report": "r.html",
    }  # fmt: skip
    cli_output.show(result, False, cli_output.run_text)
    text = capsys.readouterr().out
    for shown in ("1,234", "56.8", "stages 1.5", "98.0 % of the assistant"):
        assert shown in text
    failed = {"recipe": "x", "scale": "smoke", "folder": "f", "error": "E: why"}
    assert "E: why" in list(cli_output.runs_text([failed]))[-1]


def test_an_error_of_ours_keeps_its_traceback(monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "app", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main([])
    monkeypatch.setattr(
        commands, "app", lambda **_: (_ for _ in ()).throw(InputError("a"))
    )
    assert fails(capsys) == "Error: a\n"


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


def test_report_of_a_full_disk_is_one_line(monkeypatch, capsys):
    full = OSError(28, "No space left on device", "runs/x")
    monkeypatch.setattr(commands, "app", lambda **_: (_ for _ in ()).throw(full))
    assert "No space left on device: 'runs/x'" in fails(capsys)
