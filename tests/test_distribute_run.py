"""A run of two processes: both take part in its stages, and the first leaves it."""

import json
from pathlib import Path

import numpy as np
import pytest
from small_recipe import write_place

import keras_msd
from keras_msd.load import load_encoder

ROOT = Path(keras_msd.__path__[0]).parent
SPREAD = {"distribute.strategy": "data_parallel"}
STAGES = ("teach_assistant", "contrastive_learning")
# Rates at which three updates move weights by more than rounding.
OTHERS = {"evaluate.artefacts": False, "assistant.dropout": 0.0} | {
    f"stages.{name}.learning_rate": 1e-2 for name in STAGES
}
RUN = """
import json, sys
from keras_msd.recipes import run
place, out, options = sys.argv[1:4]
folders = place + "/data", place + "/store"
found = run(place + "/small.toml", out, None, *folders, json.loads(options))
print(json.dumps([found["rows"], found["folder"]]))
"""


@pytest.mark.slow
def test_a_run_of_two_processes_is_that_of_one(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import distribute

    place = write_place(tmp_path)

    def ran(out, processes, options):
        program = ("-c", RUN, place, out, json.dumps(options))
        compiled = place / "compiled"
        found = distribute.start("jax", compiled, processes=processes, program=program)
        said = [process.communicate(timeout=300) for process in found]
        for process, (_, errors) in zip(found, said, strict=True):
            assert process.returncode == 0, errors[-2000:]
        return [json.loads(out.splitlines()[-1]) for out, _ in said]

    one, both = place / "one", place / "both"
    ((alone, _),) = ran(one, 1, OTHERS)
    first, second = ran(both, 2, OTHERS | SPREAD)
    assert first == second and first[1] == str(both)
    assert json.loads((both / "scores.json").read_text())["rows"] == first[0]
    assert [row["name"] for row in alone] == [row["name"] for row in first[0]]
    for stage in STAGES:
        losses = terms(one, stage), terms(both, stage)
        assert losses[0].keys() == losses[1].keys() and losses[0]["loss"]
        for name, values in losses[0].items():
            np.testing.assert_allclose(losses[1][name], values, rtol=1e-3)
    start, found = weights_of(one), weights_of(both)
    for step, weights in start.items():
        moved = [np.abs(it - found[step][path]).max() for path, it in weights.items()]
        assert max(moved) < 1e-3, step
    before = start["assistant_start"], start["teach_assistant"]
    steps = [np.abs(before[0][path] - before[1][path]).max() for path in before[0]]
    assert max(steps) > 1e-2  # so that other gradients would be seen


def terms(folder, stage):
    record = json.loads((folder / "stages" / stage / "history.json").read_text())
    return record["terms"]


def weights_of(folder):
    places = {it: folder / "stages" / it for it in ("assistant_start", *STAGES)}
    return {it: load_encoder(at / "encoder").weights() for it, at in places.items()}
