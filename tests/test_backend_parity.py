"""Every loss and every stage's step give the same numbers under TensorFlow and JAX.

This file is also the program that each backend runs: it writes what it computed.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest
from test_stages import DIM, ROWS, batch, network

import keras_msd
from keras_msd.choices import Target
from keras_msd.losses.distances import (
    EmbeddingMSE,
    FeatureDistillation,
    SoftmaxClassification,
)
from keras_msd.losses.similarities import (
    AdditiveMarginSoftmax,
    LogitDistillation,
    MultilingualContrastive,
    SimilarityDistribution,
)
from keras_msd.stages import (
    AlignEmbedding,
    ClassifyInference,
    ContrastiveLearning,
    LossTerm,
    TeachAssistant,
    TeachStudent,
    TeachThinDeep,
)
from keras_msd.training.optimizer import make_optimizer


def thin_deep(model):
    return drawn(TeachThinDeep(model, feature_weight=1.0, teacher_dim=DIM, scale=10.0))


def drawn(stage):
    """Return the stage with its dense layer drawn by NumPy."""
    draw = np.random.default_rng(13)
    stage.dense.set_weights([draw.normal(size=w.shape) for w in stage.dense.weights])
    return stage


STAGES = {
    "contrastive_learning": lambda model: ContrastiveLearning(model, kd_weight=3),
    "chunked": lambda model: ContrastiveLearning(model, kd_weight=3, chunk_size=4),
    "teach_thin_deep": thin_deep,
    "classify_inference": lambda model: drawn(ClassifyInference(model)),
}
# Without a body, which the other stages have; one stage has a term for each target.
TARGETS = [
    LossTerm(target, MultilingualContrastive(target), "teacher", grouped=True)
    for target in get_args(Target)[1:]
]
BODILESS = {
    "teach_assistant": TeachAssistant,
    "align_embedding": AlignEmbedding,
    "teach_student": TeachStudent,
    "per_token": lambda model: AlignEmbedding(model, per_token=True),
    "targets": lambda model: ContrastiveLearning(
        model, contrastive=None, losses=TARGETS
    ),
}
FULL = {"bottleneck_dim": 4, "normalize": True}
STEPS, BATCHES, RATE = 20, 4, 1e-2
CLIPPING = {"clipped": 0.5, "unclipped": None}


def redrawn_network(num_layers=1):
    """Return the network with every weight drawn by NumPy, so that backends agree."""
    model = network(**FULL, num_layers=num_layers)
    draw = np.random.default_rng(11)
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        centre = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(centre + 0.3 * draw.normal(size=weight.shape))
    return model


def compile_with_sgd(stage):
    """Run op by op: test_stages.py and test_jax_path.py compile whole steps."""
    stage.compile(keras.optimizers.SGD(1.0), run_eagerly=True)


def values(model):
    trained = model.trainable_weights
    return {w.path: keras.ops.convert_to_numpy(w.value) for w in trained}


def per_token(y):
    draw = np.random.default_rng(4)
    wide = {key: (ROWS, 10 * y[key].shape[1]) for key in y if "embedding" in key}
    return {
        key: draw.normal(size=shape).astype("float32") for key, shape in wide.items()
    }


def dropout_in_chunks(x, y):
    """Yield what a step in chunks with dropout does to the weights and to the draws."""
    model = network(**FULL, dropout=0.4)
    stage = ContrastiveLearning(model, chunk_size=4)
    compile_with_sgd(stage)
    kept = {id(weight) for weight in model.weights}
    fixed = {id(one) for one in model.weights if not one.trainable}
    moving = [one for one in model.variables if id(one) not in fixed]
    before = {v.path: keras.ops.convert_to_numpy(v) for v in moving}
    stage.fit(x, y, batch_size=ROWS, verbose=0)
    for number, one in enumerate(moving):
        after = keras.ops.convert_to_numpy(one)
        # Keras counts seed generators in the whole process: their paths say nothing.
        name = f"weight/{one.path}" if id(one) in kept else f"draw/{number}"
        change = np.abs(after.astype("float64") - before[one.path]).max()
        yield name, change > 0 and np.isfinite(change)


def twenty_steps(clip_norm, chunk_size=None, **options):
    """Return by how much 20 compiled steps changed each variable.

    The vocabulary is small: most words, and the pad token, occur several times in each
    batch.
    """
    model = redrawn_network(num_layers=0)
    stage = ContrastiveLearning(model, chunk_size=chunk_size)
    stage.compile(make_optimizer(RATE, steps=STEPS, clip_norm=clip_norm), **options)
    before = values(model)
    data = [batch(seed) for seed in range(BATCHES)]
    x, y = (
        {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
        for parts in zip(*data, strict=True)
    )
    epochs = STEPS // BATCHES
    stage.fit(x, y, batch_size=ROWS, epochs=epochs, shuffle=False, verbose=0)
    return {path: value - before[path] for path, value in values(model).items()}


def compute():
    """Return everything that must agree, by name."""
    made = {}
    x, y = batch()
    y |= {f"teacher_{side}": y[f"assistant_{side}"] for side in ("source", "target")}
    y["label"] = np.arange(ROWS, dtype="int32") % 3
    draw = np.random.default_rng(2)
    pair = tuple(draw.normal(size=(2, ROWS, DIM)).astype("float32"))
    goal = (y["teacher"], x["group"])
    for dims in ("mean", "sum"):
        made[f"loss/mse_{dims}"] = EmbeddingMSE(dims)(*pair)
    for target in get_args(Target):
        made[f"loss/{target}"] = MultilingualContrastive(target)(goal, pair)
    for across in (False, True):
        made[f"loss/distribution_{across}"] = SimilarityDistribution(across=across)(
            goal[0], pair
        )
    goals = (y["teacher_source"], y["teacher_target"])
    made["loss/ams"] = AdditiveMarginSoftmax()(goal, pair)
    made["loss/ams_literal"] = AdditiveMarginSoftmax(scale=1.0)(goal[0], pair)
    made["loss/feature"] = FeatureDistillation()(pair, pair[::-1])
    made["loss/logit"] = LogitDistillation()(goals, pair)
    matrix = np.ones((3 * DIM, 3), "float32")
    matrix[:4, 1] = 0
    made["loss/classes"] = SoftmaxClassification()(y["label"], (*pair, matrix))
    made |= {f"dropout/{name}": value for name, value in dropout_in_chunks(x, y)}
    for name, make in (STAGES | BODILESS).items():
        model = redrawn_network(num_layers=int(name in STAGES))
        before = values(model)
        stage = make(model)
        compile_with_sgd(stage)
        goals = per_token(y) if "per_token" in name else y
        history = stage.fit(x, goals, batch_size=ROWS, shuffle=False, verbose=0).history
        made |= {f"loss/{name}/{term}": v[0] for term, v in history.items()}
        after = values(model)
        made |= {f"step/{name}/{k}": after[k] - before[k] for k in before}
    model = redrawn_network()
    before = values(model)
    optimizer = make_optimizer(0.5, steps=1, warmup=0, weight_decay=0.1)
    optimizer.apply([keras.ops.zeros(w.shape) for w in model.weights], model.weights)
    made |= {f"decay/{k}": v - before[k] for k, v in values(model).items()}
    for clipping, norm in CLIPPING.items():
        changes = twenty_steps(norm)
        made |= {f"twenty/{clipping}/{k}": value for k, value in changes.items()}
    return {name: np.asarray(value) for name, value in made.items()}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    path = tmp_path_factory.mktemp("parity") / "jax.npz"
    root = str(Path(keras_msd.__path__[0]).parent)
    own = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    pytest.importorskip("jax")
    command = [sys.executable, __file__, str(path)]
    subprocess.run(command, check=True, env=os.environ | own)
    return compute(), dict(np.load(path))


def test_both_backends_ran(both):
    here, there = both
    assert keras.backend.backend() == "tensorflow"
    assert str(there.pop("backend")) == "jax"
    assert here.keys() == there.keys()
    assert sum(name.startswith("loss/") for name in here) == 14 + 2 + 4 * 3 + 3 * 4 + 7


def test_losses_and_terms_agree(both):
    here, there = both
    for name in here:
        if name.startswith("loss/"):
            assert here[name] != 0
            np.testing.assert_allclose(here[name], there[name], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("stage", STAGES | BODILESS)
def test_one_step_changes_every_variable_alike(both, stage):
    here, there = both
    trained = [name for name in here if name.startswith(f"step/{stage}/")]
    assert len(trained) == (24 if stage in STAGES else 6)
    for name in trained:
        change, largest = here[name], np.abs(here[name]).max()
        if stage in ("align_embedding", "per_token") and "/embedding/" not in name:
            assert largest == 0 and not there[name].any(), name
        elif name.endswith("key/bias"):
            # Softmax ignores what all keys share, so only rounding moves this bias.
            assert largest < 1e-6 and np.abs(there[name]).max() < 1e-6, name
        else:
            assert largest > 1e-6, name
            worst = np.abs(change - there[name]).max()
            assert worst <= 1e-4 * largest, (name, worst, largest)


def test_chunks_change_nothing(both):
    for made in both:
        whole = [name for name in made if name.startswith("step/contrastive_learning/")]
        for name in whole:
            if not name.endswith("key/bias"):
                parts = made[name.replace("contrastive_learning", "chunked")]
                worst = np.abs(parts - made[name]).max()
                assert worst <= 1e-5 * np.abs(made[name]).max(), name


def test_dropout_in_chunks_draws_anew_at_every_step(both):
    for made in both:
        changed = {k: v for k, v in made.items() if k.startswith("dropout/")}
        assert any("/draw/" in name for name in changed) and len(changed) > 5
        assert all(changed.values()), changed


@pytest.mark.parametrize("case", [*CLIPPING, "chunked"])
def test_a_word_that_occurs_twice_has_one_gradient(both, case):
    """Of several replicas: test_stages_mirrored.py."""
    here, there = both
    clipping = "clipped" if case == "chunked" else case
    found = {name: here[name] for name in here if name.startswith(f"twenty/{clipping}")}
    if case == "chunked":
        changes = twenty_steps(CLIPPING[clipping], chunk_size=4, run_eagerly=True)
        found = {f"twenty/{clipping}/{path}": it for path, it in changes.items()}
    assert len(found) == 6
    for name, change in found.items():
        largest = np.abs(there[name]).max()
        assert largest > 1e-3, name
        worst = np.abs(change - there[name]).max()
        assert worst <= 1e-5 * largest, (name, worst / largest)


def test_the_same_variables_decay(both):
    here, there = both
    decay = [name for name in here if name.startswith("decay/")]
    for name in decay:
        np.testing.assert_allclose(here[name], there[name], rtol=1e-6, err_msg=name)
        kept = name.rpartition("/")[2] in ("bias", "gamma", "beta")
        assert here[name].any() != kept, name


if __name__ == "__main__":
    np.savez(sys.argv[1], backend=keras.backend.backend(), **compute())
