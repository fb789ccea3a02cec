"""A run that trains on NaN stops at that update, and goes on once it is mended."""

import json
from functools import partial

import numpy as np
import pytest
from small_recipe import write_place

from keras_msd.checks import InputError
from keras_msd.data.batches import PairBatches
from keras_msd.io.files import read_json
from keras_msd.recipes import run
from keras_msd.training import CollapseMonitor

pytestmark = pytest.mark.usefixtures("no_graphs")

QUICK = {
    "evaluate.artefacts": False,
    "evaluate.intermediate": "none",
    "evaluate.sets": ["examples"],
    "starts.closed_form": False,
    "student.kind": "none",
}
STEP = "stages/teach_assistant"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_place(tmp_path_factory.mktemp("recipes"))


def start(place, out, changes=(), **options):
    given = {"data_dir": place / "data", "store_dir": place / "store"}
    changes = QUICK | dict(changes)
    return run(place / "small.toml", place / out, overrides=changes, **given | options)


@pytest.fixture(scope="module")
def whole(place):
    start(place, "whole")
    return place / "whole"


@pytest.fixture
def poison(monkeypatch):
    """Return a context in which some batches of the first stage hold NaN."""

    def poisoned(*places):
        def batch(self, position, original=PairBatches.batch):
            x, y = original(self, position)
            if position in places and "teacher" in y:
                y = y | {"teacher": np.full_like(y["teacher"], np.nan)}
            return x, y

        context = monkeypatch.context()
        context.__enter__().setattr(PairBatches, "batch", batch)
        return context

    return poisoned


def content(folder):
    names = ("weights.safetensors", "history.json", "scores.json")
    files = [path for path in folder.rglob("*") if path.name in names]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_it_stops_there_and_the_same_command_goes_on(place, whole, poison):
    context = poison(1)
    said = r"Step `teach_assistant`: .*source_mse=nan.*at update 2 of .*batch 1 of its"
    with pytest.raises(InputError, match=rf"(?s){said}.*`teacher` is not finite"):
        start(place, "mended", checkpoint_minutes=0)
    context.__exit__(None, None, None)
    step = place / "mended" / STEP
    assert not (step / "done.json").exists() and not (step / "history.json").exists()
    assert [it.name for it in (step / "unfinished").iterdir()] == ["update_0000000001"]
    start(place, "mended")
    assert content(place / "mended") == content(whole)


def test_a_rate_that_is_far_too_high(place):
    changes = {"stages.teach_assistant.learning_rate": 1e38}
    with pytest.raises(InputError) as error:
        start(place, "diverged", changes)
    parts = "`teach_assistant`", "1e+38", "is not done", "begins this stage again"
    for part in parts:
        assert part in str(error.value)
    left = [*(place / "diverged").rglob("*")]
    assert not [
        it for it in left if it.name == "weights.safetensors" and STEP in str(it)
    ]
    for path in left:
        if path.suffix == ".json":
            json.loads(path.read_text(), parse_constant=pytest.fail)


def test_collapse_is_said_in_a_run(place, monkeypatch):
    always = partial(CollapseMonitor, threshold=-2.0, every=1)
    monkeypatch.setattr("keras_msd.recipes.train.CollapseMonitor", always)
    start(place, "collapsed")
    history = read_json(place / "collapsed" / STEP / "history.json")
    assert history["collapsed"]["updates"] == 1
    page = (place / "collapsed" / "report.html").read_text(encoding="utf-8")
    assert "collapsed" in page
