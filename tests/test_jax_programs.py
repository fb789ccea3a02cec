"""Under JAX every stage's step, and `encode`, are programs for GPUs and TPUs.

This file is also what JAX runs: it lowers them, which needs no such device.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_jax import STAGES, goals_of
from test_stages import ROWS, network

import keras_msd

pytestmark = pytest.mark.slow
PLATFORMS = ("cuda", "tpu")
# Of random numbers and of the rows' layout; anything else may be a call to Python.
CALLS = {"Sharding", "cu_threefry2x32_ffi"}
LENGTH, WIDE = 16, {"hidden_dim": 64, "intermediate_dim": 256, "num_layers": 2}


def state_of(stage):
    """Return what a step takes and gives back."""
    stage.compile(keras_msd.training.make_optimizer(1e-3, steps=9))
    stage.build_optimizer()
    fixed, means = stage.non_trainable_variables, stage.metrics_variables
    parts = stage.trainable_variables, fixed, stage.optimizer.variables, means
    return tuple([variable.value for variable in part] for part in parts)


def facts(function, *arguments, donate=()):
    """Return what the lowered program of a function has in it."""
    import jax

    jitted = jax.jit(function, donate_argnums=donate)
    text = jax.export.export(jitted, platforms=PLATFORMS)(*arguments).mlir_module()
    return {
        "calls": sorted(set(re.findall(r"custom_call @(\w+)", text))),
        "dynamic": len(re.findall(r"tensor<[^>]*\?", text)),
        "donated": len(re.findall(r"jax.buffer_donor|tf.aliasing_output", text)),
        "state": len(jax.tree.leaves([arguments[place] for place in donate])),
    }


def traced(owner, name, work):
    """Return how often a method was traced meanwhile, once for each program."""
    method, calls = getattr(owner, name), []

    def counted(*given, **options):
        calls.append(name)
        return method(*given, **options)

    setattr(owner, name, counted)
    try:
        work()
    finally:
        setattr(owner, name, method)
    return len(calls)


def programs(folder):
    """Return how many programs a training and an `encode` of many lengths have."""
    from keras_msd.data import GuideStore, Pair, PairBatches
    from keras_msd.stages import TeachAssistant
    from keras_msd.testing import tiny_encoder

    encoder = tiny_encoder(max_length=64, num_layers=0)
    words = np.random.default_rng(0).permutation(np.arange(96) % 24 + 1)
    texts = [f"{row} " + "cat " * int(count) for row, count in enumerate(words)]
    pairs = [Pair(text, text[::-1], "de", "some") for text in texts]
    guides = {"teacher": (GuideStore(encoder, folder), "source")}
    batches = PairBatches(pairs, encoder, guides, batch_size=4, multiple=4)
    stage = TeachAssistant(encoder)
    stage.compile("sgd")

    def train():
        stage.fit(batches, epochs=1, shuffle=False, verbose=0)

    steps = traced(TeachAssistant, "train_step", train)
    encodes = traced(
        type(encoder.model), "call", lambda: encoder.encode(texts, batch_size=16)
    )
    free = PairBatches(pairs, encoder, {}, 4, multiple=4, buckets=1000)
    return {
        "steps": steps,
        "shapes": batches.shapes(),
        "free": free.shapes(),
        "encodes": encodes,
    }


def cost(stage, x, y):
    """Return the operations of a step, of the program and by the formula."""
    import jax
    from gpu_run import step_operations

    arguments = state_of(stage), (x, y)
    lowered = jax.jit(stage.train_step).lower(*arguments)
    rows, length = x["source_token_ids"].shape
    lengths = np.full(2 * rows, length)
    formula = step_operations(stage.trained_encoder().config, lengths)
    return {"program": lowered.cost_analysis()["flops"], "formula": formula}


def compute(folder):
    """Return everything that is tested."""
    from keras_msd.stages import TeachAssistant
    from keras_msd.testing import tiny_encoder

    found = {}
    for name, make in STAGES.items():
        x, y = goals_of(name)
        stage = make(network(num_layers=1, dropout=0.1))
        found[name] = facts(stage.train_step, state_of(stage), (x, y), donate=(0,))
    model = tiny_encoder().model
    parts = model.trainable_variables, model.non_trainable_variables
    weights = tuple([variable.value for variable in part] for part in parts)
    inputs = {name: x[f"source_{name}"] for name in ("token_ids", "padding_mask")}

    def encode(weights, inputs):
        return model.stateless_call(*weights, inputs, training=False)[0]

    found["encode"] = facts(encode, weights, inputs)
    wide = tiny_encoder(**WIDE, max_length=LENGTH, dropout=0.0)
    ids = np.ones((ROWS, LENGTH), "int32")
    x = dict.fromkeys(x, ids) | {"group": x["group"]}
    found["cost"] = cost(
        TeachAssistant(wide), x, {"teacher": np.ones((ROWS, 64), "float32")}
    )
    return found | {"programs": programs(folder)}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("programs")
    root = Path(keras_msd.__path__[0]).parent
    paths = os.pathsep.join([str(root), str(root / "benchmarks")])
    own = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    command = [sys.executable, __file__, str(folder)]
    subprocess.run(command, check=True, env=os.environ | own)
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("stage", STAGES)
def test_a_step_runs_on_the_device_alone(found, stage):
    it = found[stage]
    assert set(it["calls"]) <= CALLS
    assert it["dynamic"] == 0
    assert it["donated"] == it["state"] > 10


def test_encoding_runs_on_the_device_alone(found):
    assert set(found["encode"]["calls"]) <= CALLS and found["encode"]["dynamic"] == 0


def test_there_are_few_programs(found):
    it = found["programs"]
    assert it["steps"] == it["shapes"] <= 6 < it["free"]
    assert it["encodes"] <= 6


def test_the_program_has_the_operations_of_the_formula(found):
    # Beside products of matrices it has activations and norms, and the optimizer.
    assert 1 < found["cost"]["program"] / found["cost"]["formula"] < 1.3


if __name__ == "__main__":
    made = compute(Path(sys.argv[1]) / "vectors")
    (Path(sys.argv[1]) / "found.json").write_text(json.dumps(made))
