"""The examples in the docstrings of all public names are run."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import keras_msd

PACKAGE = Path(keras_msd.__file__).parent
ROOMS = [
    room
    for path in sorted(PACKAGE.rglob("__init__.py"))
    for room in [".".join(("keras_msd", *path.parent.relative_to(PACKAGE).parts))]
    if getattr(import_module(room), "__all__", None)
]
ROOMS += ["keras_msd.distribute", "keras_msd.testing"]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public(room: str) -> list[str]:
    """Return the names of a room that have a docstring of their own: no tables."""
    module = import_module(room)
    kinds = (inspect.isclass, inspect.isfunction)
    return [n for n in module.__all__ if any(k(getattr(module, n)) for k in kinds)]


# What two rooms show is one example.
THINGS = {getattr(import_module(r), n): (r, n) for r in ROOMS for n in public(r)}
WITH_GRAPHS = {"keras_msd", "keras_msd.export", "keras_msd.recipes"}


@pytest.mark.parametrize(
    ("room", "name"), sorted(THINGS.values(), key=lambda it: it[0] not in WITH_GRAPHS)
)
def test_example(room, name, tmp_path, monkeypatch, request):
    """Examples know `msd`, `np` and nothing else, and stand in an empty folder."""
    if room not in WITH_GRAPHS:  # from here on: these are the last rooms
        request.getfixturevalue("no_graphs")
    monkeypatch.chdir(tmp_path)
    thing = getattr(import_module(room), name)
    text = inspect.getdoc(thing) or ""
    names = {"msd": keras_msd, "np": np}
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert example.examples, f"{room}.{name} has no example"
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(example, out=failures.append)
    assert failures == []
