"""A training on several devices and processes is that of one; one that dies is seen."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_msd
from keras_msd.checks import InputError
from keras_msd.distribute import Workers, distribution
from keras_msd.distribute.workers import LOST

ROOT = Path(keras_msd.__path__[0]).parent
BACKENDS = ("tensorflow", "jax")
EXACT = 1e-10  # of the largest entry, in float64
UPDATES, KILLED_AT = 4, 3


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a folder of what JAX has compiled, which the processes share."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import distribute

    return distribute


@pytest.fixture(params=BACKENDS)
def backend(request):
    if request.param == "jax":
        pytest.importorskip("jax")
    return request.param


def assert_exact(row):
    assert row["same_weights"]
    assert 0 <= row["gradient"] < EXACT and 0 <= row["losses"] < EXACT, row
    assert row["vectors"] < 1e-5  # of a callback that encodes


def test_two_devices_train_as_one(bench, backend, compiled):
    cases = ("similarities", "thin_deep_chunks")
    options = ("--float64", "--steps", 2, "--cases", ",".join(cases))
    (found,) = bench.rows_of(bench.start(backend, compiled, *options, devices=2))
    assert [row["case"] for row in found] == list(cases)
    for row in found:
        assert row["replicas"] == 2
        assert_exact(row)


@pytest.mark.slow
def test_three_devices_train_as_one(bench):
    # A third is no number of float32, to which Keras rounds it.
    options = ("--float64", "--steps", 2, "--rows", bench.ROWS[3])
    options += ("--cases", "similarities,thin_deep_chunks")
    (found,) = bench.rows_of(bench.start("tensorflow", "", *options, devices=3))
    assert [row["replicas"] for row in found] == [3, 3]
    for row in found:
        assert_exact(row)


@pytest.mark.slow
def test_two_processes_train_as_one(bench, backend, compiled):
    options = ("--float64", "--steps", 2, "--cases", "similarities")
    both = bench.rows_of(bench.start(backend, compiled, *options, processes=2))
    for (row,) in both:
        assert (row["processes"], row["replicas"]) == (2, 2)
        assert_exact(row)
    assert both[0] == both[1]


@pytest.mark.slow
def test_a_killed_process_stops_the_other_and_a_restart_ends_the_same(
    bench, backend, compiled, tmp_path
):
    def run(name, processes=2, **options):
        where = ("--folder", tmp_path / name, "--cases", "teach_assistant")
        where += ("--steps", UPDATES)
        return bench.start(backend, compiled, *where, processes=processes, **options)

    (undisturbed,), *_ = bench.rows_of(run("whole"))
    kill = {1: ("--kill-at", KILLED_AT)}
    first, second = run("killed", of_process=kill)
    second.communicate(timeout=300)
    _, errors = first.communicate(timeout=60)  # the most that it may take
    assert second.returncode == -signal.SIGKILL
    assert first.returncode == LOST, errors[-2000:]
    assert "Worker 1 of 2" in errors and "was ended" in errors
    kept = sorted(path.name for path in (tmp_path / "killed/checkpoints").iterdir())
    assert f"update_{KILLED_AT - 1:010d}" in kept
    shutil.copytree(tmp_path / "killed", tmp_path / "alone")
    for name, processes in (("killed", 2), ("alone", 1)):
        (row,), *_ = bench.rows_of(run(name, processes))
        behind = undisturbed["losses"][-len(row["losses"]) :]
        assert len(behind) < UPDATES  # those behind the checkpoint
        np.testing.assert_allclose(row["losses"], behind, rtol=1e-4)  # of these rows
    names = "whole", "killed", "alone"
    whole, resumed, alone = (np.load(tmp_path / it / "last.npz") for it in names)
    assert list(whole) == list(resumed) and len(whole.files) > 5
    for name in whole:
        np.testing.assert_array_equal(whole[name], resumed[name])
        np.testing.assert_allclose(whole[name], alone[name], atol=1e-5)


@pytest.mark.slow
def test_the_first_process_is_killed(bench, backend, compiled, tmp_path):
    where = ("--folder", tmp_path, "--cases", "teach_assistant", "--steps", UPDATES)
    kill = {0: ("--kill-at", KILLED_AT)}
    first, second = bench.start(backend, compiled, *where, processes=2, of_process=kill)
    first.communicate(timeout=300)
    _, errors = second.communicate(timeout=60)
    assert first.returncode == -signal.SIGKILL
    if backend == "tensorflow":
        assert second.returncode == LOST, errors[-2000:]
        assert "Worker 0 of 2" in errors and "was ended" in errors
    else:  # JAX is quicker to see that its coordinator is gone: docs/distribute.md
        assert second.returncode and "leader task" in errors, errors[-2000:]


PLAIN = """
import keras, numpy as np, tensorflow as tf
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
rows = np.ones((4, 2), "float32")
try:
    model.fit(rows, rows[:, :1], batch_size=4, verbose=0)
except Exception as error:
    print("Keras cannot:", error)
else:
    print("Keras can")
"""


@pytest.mark.slow
def test_keras_has_not_repaired_several_workers(bench):
    # Once it has, `_on_replicas` in training/tensorflow_step.py can go.
    both = bench.start("tensorflow", "", processes=2, program=("-c", PLAIN))
    found = [process.communicate(timeout=120) for process in both]
    for process, (said, errors) in zip(both, found, strict=True):
        assert process.returncode == 0, errors[-2000:]
        assert "Keras cannot: " in said and "PerReplica" in said, said


def test_what_is_unknown_is_refused():
    with pytest.raises(InputError, match="data_parallel"):
        distribution("model_parallel")


def test_a_process_that_does_not_come_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_msd.distribute.workers.JOIN_S", 0.1)
    with pytest.raises(InputError, match="nothing of process 1, 2"):
        Workers(tmp_path, 0, 3).__enter__()


MEETING = """
import sys, time
from keras_msd.distribute import workers
workers.LOOK_S = 0.2
folder, process, ends = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with workers.Workers(folder, process, 2) as both:
    both.meet("here")
    print("met", flush=True)
    if ends == "fails" and process:
        raise workers.InputError("no disk")
    if ends != "well":
        time.sleep(60)
"""


@pytest.mark.parametrize("ends", ["well", "fails", "waits"])
def test_processes_meet_and_see_each_other_end(tmp_path, ends):
    left = {"met": ["here"], "end": "well", "machine": "old", "number": 1}
    for name in ("0.json", "1.json"):  # of a launch before
        (tmp_path / name).write_text(json.dumps(left))
    both = [
        subprocess.Popen(
            [sys.executable, "-c", MEETING, tmp_path, str(process), ends],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in (0, 1)
    ]
    if ends == "waits":
        assert both[1].stdout.readline() == both[0].stdout.readline() == "met\n"
        both[1].kill()
    said = [process.communicate(timeout=60) for process in both]
    if ends == "well":
        assert [it.returncode for it in both] == [0, 0]
        assert [out for out, _ in said] == ["met\n", "met\n"]
        return
    why = {"fails": "InputError: no disk", "waits": "was ended"}[ends]
    assert both[0].returncode == LOST
    assert "Worker 1 of 2" in said[0][1] and why in said[0][1]
