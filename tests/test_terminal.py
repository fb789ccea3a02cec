"""Results reach terminals and pipes that lack some of their letters."""

import io
import json
import sys

import pytest

from keras_msd import cli
from keras_msd.testing import tiny_encoder

LINES = ["面包店在哪里？", "Der Bäcker", "Пекарня", "🐈 \u2028 ☕"]


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    tiny_encoder(tokenizer).save(folder / "encoder")
    (folder / "lines.txt").write_text("\n".join(LINES), encoding="utf-8")
    return folder


def shown(monkeypatch, charset, *arguments):
    """Return the exit code and what was written to stdout and stderr."""
    streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, charset, "strict"))
    with pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    sys.stdout.flush(), sys.stderr.flush()
    out, error = (it.getvalue().decode(charset) for it in streams.values())
    return end.value.code or 0, out, error


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "cp1252", "utf-8"])
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
        assert bakery in out


@pytest.mark.parametrize("charset", ["ascii", "cp1252"])
def test_messages_and_help(monkeypatch, folder, charset):
    missing = folder / "fehlt: 面包.txt"
    code, out, error = shown(monkeypatch, charset, "embed", "x", "--input", missing)
    assert (code, out) == (2, "") and "\\u9762\\u5305.txt" in error
    command = "embed", "x", "--input", missing, "--json"
    code, out, _ = shown(monkeypatch, charset, *command)
    assert code == 2 and str(missing) in json.loads(out)["error"]
    pairs = "mine", folder / "lines.txt", "-e", folder / "encoder"
    for command in (
        ["--help"],
        ["distil", "--help"],
        ["list"],
        ["list", "demo"],
        pairs,
    ):
        code, out, error = shown(monkeypatch, charset, *command)
        assert code == 0 and out, error


def test_an_argument_that_is_no_text(monkeypatch, folder):
    command = "search", folder / "encoder", "half \udcff", folder / "lines.txt"
    code, out, error = shown(monkeypatch, "utf-8", *command)
    assert (code, out) == (2, "") and "must be Unicode" in error
