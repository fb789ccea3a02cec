"""`keras-msd` within the process of a test."""

import json

import pytest

from keras_msd import cli


def run(capsys, *arguments):
    """Return (exit code, stdout, stderr) of the command line."""
    with pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return end.value.code or 0, captured.out, captured.err


def result(capsys, *arguments):
    """Return what a command that must succeed prints with `--json`."""
    code, out, error = run(capsys, *arguments, "--json")
    assert code == 0, error
    return json.loads(out)


def fails(capsys, *arguments):
    """Return the message of a command that must end with exit code 2."""
    code, out, error = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert error.startswith("Error: ") and error.count("Error") == 1
    assert "Traceback" not in error
    return error
