"""Every command that the documents show has the options that they give it."""

import re
from pathlib import Path

import pytest
import typer

from keras_msd.cli import app

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^(?:\$ )?keras-msd ([a-z-]+)(.*)$", re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "recipes/README.md", "export/README.md"])
def test_commands_and_options_exist(name):
    commands = typer.main.get_command(app).commands
    shown = LINE.findall((ROOT / name).read_text(encoding="utf-8"))
    assert shown
    for command, rest in shown:
        known = {o for p in commands[command].params for o in p.opts}
        given = re.findall(r"(?<!\S)--[a-z-]+", rest.split("#")[0])
        assert set(given) <= known, (command, given)
