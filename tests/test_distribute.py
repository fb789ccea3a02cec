"""A training on several devices and processes is that of one; defaults on devices."""

import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import keras_msd
from keras_msd.checks import InputError
from keras_msd.data.pair import Pair
from keras_msd.distribute import (
    default_settings,
    device_settings,
    distribution,
    make_deterministic,
)
from keras_msd.recipes.train import PairRows, batches_of
from keras_msd.stages import TeachAssistant
from keras_msd.stages.settings import PairStageSettings
from keras_msd.testing import tiny_encoder
from keras_msd.training.callbacks import History

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "devices"), [("jax", 2), ("tensorflow", 2), ("tensorflow", 3)]
)
def test_devices_train_as_one(bench, backend, devices, compiled):
    """In float32, under TensorFlow: test_stages_mirrored.py."""
    # With three, a share is a third: no number of float32, to which Keras rounds.
    pytest.importorskip(backend)
    options = ("--float64", "--steps", 2, "--rows", bench.ROWS[devices])
    options += ("--cases", "similarities,thin_deep_chunks")
    (found,) = bench.rows_of(bench.start(backend, compiled, *options, devices=devices))
    assert [row["replicas"] for row in found] == [devices, devices]
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


@pytest.mark.parametrize(
    ("backend", "devices", "expected"),
    [
        ("tensorflow", ["cpu"], (False, None, True, 1, "float32")),
        ("tensorflow", ["cpu", "gpu"], (True, 6, False, 32, "auto")),
        ("jax", ["cpu"], (True, 6, True, 1, "float32")),
        ("jax", ["gpu"], (True, 6, False, 32, "auto")),
        ("jax", ["tpu"], (True, 6, False, 32, "auto")),
        ("torch", [], (False, None, True, 1, "float32")),
    ],
)
def test_defaults_follow_the_device(backend, devices, expected):
    assert default_settings(backend, devices) == expected


def test_tensorflow_on_a_tpu_is_sent_to_jax():
    with pytest.raises(InputError, match="needs the backend jax. Received: tensorflow"):
        default_settings("tensorflow", ["cpu", "tpu"])


def test_a_stage_is_compiled_by_xla_on_a_gpu(tokenizer, monkeypatch):
    stage = TeachAssistant(tiny_encoder(tokenizer, num_layers=0))
    stage.compile("sgd")
    assert not stage.jit_compile
    gpu = default_settings("tensorflow", ["gpu"])
    monkeypatch.setattr(
        "keras_msd.training.tensorflow_step.device_settings", lambda: gpu
    )
    stage.compile("sgd")
    assert stage.jit_compile and not device_settings().xla
    stage.compile("sgd", run_eagerly=True)
    assert not stage.jit_compile


@pytest.mark.parametrize(
    ("steps", "at_once"), [(100, 1), (1000, 10), (3200, 32), (3700, 1)]
)
def test_the_record_of_a_stage_keeps_its_steps_on_a_gpu(
    steps, at_once, monkeypatch, tmp_path
):
    history = History(steps, tmp_path / "history.csv", "stage", 1)
    assert history.updates_at_once() == 1
    gpu = default_settings("jax", ["gpu"])
    monkeypatch.setattr("keras_msd.training.callbacks.device_settings", lambda: gpu)
    assert history.updates_at_once() == at_once
    history.set_model(SimpleNamespace(reset_metrics=lambda: None))
    history.on_train_begin()
    for done in range(at_once, steps + 1, at_once):
        history.on_train_batch_end(done - 1, {"loss": 1.0})
    assert history.record["steps"] == list(range(steps // 100, steps + 1, steps // 100))


def test_determinism_is_asked_of_jax_by_its_environment(monkeypatch):
    gpu = default_settings("jax", ["gpu"])
    monkeypatch.setattr("keras_msd.distribute.device_settings", lambda: gpu)
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    make_deterministic(None)
    with pytest.raises(InputError, match="--xla_gpu_deterministic_ops=true in the env"):
        make_deterministic(True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=false")
    with pytest.raises(InputError, match="Received: XLA_FLAGS='--xla.*=false'"):
        make_deterministic(True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
    make_deterministic(True)


@pytest.mark.parametrize(
    ("device", "buckets", "most"), [("gpu", 2, 2), ("gpu", None, 6), ("cpu", 2, 8)]
)
def test_a_recipes_stage_never_exceeds_its_buckets_where_xla_compiles(
    device, buckets, most, tokenizer, monkeypatch
):
    found = default_settings("tensorflow", [device])
    for module in ("data.batches", "recipes.train"):
        monkeypatch.setattr(f"keras_msd.{module}.device_settings", lambda: found)
    texts = ["cat " * (row % 60 + 1) for row in range(360)]
    pairs = [Pair(text, "dog " + text, "de", "some") for text in texts]
    data = SimpleNamespace(max_length=64)
    run = SimpleNamespace(recipe=SimpleNamespace(data=data), seed=lambda name: 0)
    settings = PairStageSettings(steps=9, batch_size=4, buckets=buckets)
    stage = PairRows(run, "teach_student", settings)
    stage.rows, stage.options = pairs, lambda guides: {"guides": guides}
    encoder = tiny_encoder(tokenizer, max_length=64, num_layers=0)
    shapes = {
        tuple(x[f"{side}_token_ids"].shape for side in ("source", "target"))
        for x, _ in batches_of(stage, encoder, {}, 180)
    }
    assert len(shapes) == most
