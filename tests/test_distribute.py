"""A training on several devices and processes is that of one."""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import keras_msd
from keras_msd.checks import InputError
from keras_msd.distribute import distribution

ROOT = Path(keras_msd.__path__[0]).parent
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


def assert_exact(row):
    assert row["same_weights"]
    assert 0 <= row["gradient"] < EXACT and 0 <= row["losses"] < EXACT, row
    assert row["vectors"] < 1e-5  # of a callback that encodes


@pytest.mark.parametrize(
    ("backend", "cases"),
    [
        ("jax", ["similarities"]),
        # test_stages_mirrored.py has two devices under TensorFlow.
        pytest.param("tensorflow", ["similarities"], marks=pytest.mark.slow),
        pytest.param("jax", ["thin_deep_chunks"], marks=pytest.mark.slow),
        pytest.param("tensorflow", ["thin_deep_chunks"], marks=pytest.mark.slow),
    ],
)
def test_two_devices_train_as_one(bench, backend, cases, compiled):
    pytest.importorskip(backend)
    options = ("--float64", "--steps", 2, "--cases", ",".join(cases))
    (found,) = bench.rows_of(bench.start(backend, compiled, *options, devices=2))
    assert [row["case"] for row in found] == cases
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
def test_two_processes_train_as_one(bench, compiled):
    pytest.importorskip("jax")
    options = ("--float64", "--steps", 2, "--cases", "similarities")
    both = bench.rows_of(bench.start("jax", compiled, *options, processes=2))
    for (row,) in both:
        assert (row["processes"], row["replicas"]) == (2, 2)
        assert_exact(row)
    assert both[0] == both[1]


@pytest.mark.slow
def test_a_killed_process_stops_the_other_and_a_restart_ends_the_same(
    bench, compiled, tmp_path
):
    pytest.importorskip("jax")

    def run(name, processes=2, **options):
        where = ("--folder", tmp_path / name, "--cases", "teach_assistant")
        where += ("--steps", UPDATES)
        return bench.start("jax", compiled, *where, processes=processes, **options)

    (undisturbed,), *_ = bench.rows_of(run("whole"))
    first, second = run("killed", of_process={1: ("--kill-at", KILLED_AT)})
    second.communicate(timeout=300)
    first.communicate(timeout=300)
    assert second.returncode == -signal.SIGKILL
    assert first.returncode != 0
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


def test_what_is_unknown_is_refused():
    with pytest.raises(InputError, match="data_parallel"):
        distribution("model_parallel")


def test_tensorflow_has_one_process(monkeypatch):
    cluster = {"worker": ["first:1234", "second:1234"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(InputError, match="one process.*Received: 2 tasks.*jax"):
        distribution()
