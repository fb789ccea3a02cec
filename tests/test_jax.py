"""JAX, where TensorFlow cannot be imported, computes what TensorFlow computes here.

This file is also the program that runs there: it writes what it made.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest
import test_evaluate_callbacks
from test_stages import DIM, ROWS, batch, network
from tiny_data import HashGuide

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.choices import Target
from keras_msd.losses import (
    MultilingualContrastive,
    SimilarityDistribution,
)
from keras_msd.stages import (
    AlignEmbedding,
    ClassifyInference,
    ContrastiveLearning,
    LossTerm,
    RegressSimilarity,
    TeachAssistant,
    TeachStudent,
    TeachThinDeep,
)
from keras_msd.testing import tiny_encoder, tiny_pairs
from keras_msd.training import fit, make_optimizer, profile_updates
from keras_msd.training.chunks import random_states
from keras_msd.training.resume import stage_variables

BLOCKED = ("tensorflow", "tensorflow_text")
TEXTS = ["The cat sleeps.", "Die Katze schläft.", ""]
UPDATES, BATCHES = 8, 4


def drawn(stage):
    """Return the stage with its dense layer drawn by NumPy."""
    draw = np.random.default_rng(13)
    stage.dense.set_weights([draw.normal(size=w.shape) for w in stage.dense.weights])
    return stage


def thin_deep(model):
    options = {"feature_weight": 1.0, "scale": 10.0, "chunk_size": 2}
    return drawn(TeachThinDeep(model, teacher_dim=DIM, **options))


# Every other target, a term that is a sum, and the losses that no stage has.
TARGETS = [
    LossTerm(target, MultilingualContrastive(target), "teacher", grouped=True)
    for target in get_args(Target)[1:]
]
SUM = MultilingualContrastive("ce_soft", reduction="sum")
TARGETS.append(LossTerm("sum", SUM, "teacher", grouped=True))
TARGETS += [
    LossTerm(f"across_{across}", SimilarityDistribution(across=across), "teacher")
    for across in (False, True)
]
STAGES = {
    "chunked": lambda model: ContrastiveLearning(model, kd_weight=3, chunk_size=2),
    "teach_thin_deep": thin_deep,  # in chunks, too
    "classify_inference": lambda model: drawn(ClassifyInference(model)),
    "regress_similarity": RegressSimilarity,
    "teach_assistant": TeachAssistant,
    "align_embedding": AlignEmbedding,
    "teach_student": TeachStudent,
    "per_token": lambda model: AlignEmbedding(model, per_token=True),
    "targets": lambda model: ContrastiveLearning(
        model, contrastive=None, losses=TARGETS
    ),
}
BODY = "chunked"  # the one stage of an encoder with layers, which JAX compiles slowly


def under_jax():
    return keras.backend.backend() == "jax"


def zeros(initializer, shape, dtype=None):
    return np.zeros(shape, dtype)


def redrawn_network(num_layers):
    """Return the network with every weight drawn by NumPy, so that backends agree."""
    model = network(bottleneck_dim=4, normalize=True, num_layers=num_layers)
    draw = np.random.default_rng(11)
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        centre = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(centre + 0.3 * draw.normal(size=weight.shape))
    return model


def values(model):
    trained = model.trainable_weights
    return {w.path: keras.ops.convert_to_numpy(w.value) for w in trained}


def goals_of(name):
    """Return a batch with the targets of a stage."""
    x, y = batch()
    y |= {f"teacher_{side}": y[f"assistant_{side}"] for side in ("source", "target")}
    y["label"] = np.arange(ROWS, dtype="int32") % 3
    y["gold"] = np.linspace(0, 1, ROWS).astype("float32")
    if name == "per_token":
        draw = np.random.default_rng(4)
        wide = {key: (ROWS, 10 * y[key].shape[1]) for key in y if "embedding" in key}
        y = {key: draw.normal(size=it).astype("float32") for key, it in wide.items()}
    return x, y


def one_step(name):
    """Return the loss and terms of a stage, and what a step of SGD changed."""
    model = redrawn_network(num_layers=int(name == BODY))
    before = values(model)
    stage = STAGES[name](model)
    # TensorFlow takes seconds to trace a step: test_stages.py and others do that.
    stage.compile(keras.optimizers.SGD(1.0), run_eagerly=not under_jax())
    x, y = goals_of(name)
    logs = stage.fit(x, y, batch_size=ROWS, shuffle=False, verbose=0).history
    made = {f"loss/{name}/{term}": value[0] for term, value in logs.items()}
    after = values(model)
    return made | {f"step/{name}/{k}": after[k] - before[k] for k in before}


def several_steps(chunk_size=None):
    """Return by how much a few steps of AdamW changed each variable.

    The vocabulary is small: most words, and the pad token, occur several times in each
    batch.
    """
    model = redrawn_network(num_layers=0)
    stage = ContrastiveLearning(model, chunk_size=chunk_size)
    optimizer = make_optimizer(1e-2, steps=UPDATES, clip_norm=0.5)
    stage.compile(optimizer, run_eagerly=not under_jax())
    before = values(model)
    data = [batch(seed) for seed in range(BATCHES)]
    x, y = (
        {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
        for parts in zip(*data, strict=True)
    )
    epochs = UPDATES // BATCHES
    stage.fit(x, y, batch_size=ROWS, epochs=epochs, shuffle=False, verbose=0)
    return {path: value - before[path] for path, value in values(model).items()}


def compute():
    """Return everything that must agree, by name."""
    made = {}
    for name in STAGES:
        made |= one_step(name)
    model = redrawn_network(num_layers=0)
    before = values(model)
    optimizer = make_optimizer(0.5, steps=1, warmup=0, weight_decay=0.1)
    zeros = [np.zeros(weight.shape, "float32") for weight in model.weights]
    optimizer.apply(zeros, model.weights)
    made |= {f"decay/{k}": v - before[k] for k, v in values(model).items()}
    return {name: np.asarray(value) for name, value in made.items()}


def path_through_everything(folder):
    """Train on a TSV file with dropout in chunks, once with a cut; measure, save."""
    lines = [f"{p.source}\t{p.target}\n" for p in tiny_pairs() if p.language == "de"]
    (folder / "tiny.en-de.tsv").write_text("".join(lines), encoding="utf-8")
    pairs = msd.data.read_pairs(folder / "tiny.en-de.tsv")
    encoder = tiny_encoder(num_layers=0, dropout=0.1)
    guides = {"teacher": (msd.data.GuideStore(HashGuide(16), folder / "v"), "source")}
    stage = TeachAssistant(encoder, chunk_size=2)
    stage.compile(make_optimizer(0.01, steps=6))
    stage.build_optimizer()

    def numbers(name):
        named = stage_variables(stage)
        found = {place: np.array(variable.value) for place, variable in named}
        np.savez(folder / f"{name}.npz", **found)
        return found

    def trained(name, start, stop=None):
        """Train from values of all variables."""
        for place, variable in stage_variables(stage):
            variable.assign(start[place])
        batches = msd.data.PairBatches(pairs, encoder, guides, 4, epochs=6, multiple=32)
        stop = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
        fit(stage, batches, folder / name, 0, callbacks=[stop], verbose=0)
        numbers(f"{name}_after")

    def cut(batch, logs):
        if batch == 3:
            raise EOFError

    start = numbers("start")
    trained("whole", start)
    try:
        trained("stopped", start, cut)
    except EOFError:  # of any values: everything comes out of the checkpoint
        trained("stopped", {place: value + 1 for place, value in start.items()})
    encoder.save(folder / "encoder")
    np.save(folder / "vectors.npy", encoder.encode(TEXTS))
    batches = msd.data.PairBatches(pairs, encoder, guides, 4, epochs=2, multiple=32)
    profile = profile_updates(stage, batches, updates=2)
    numbers("profiled")
    scores = test_evaluate_callbacks.run()
    found = {"profile": profile, "scores": scores}
    draws = [id(state) for state in random_states(stage.network)]
    named = stage_variables(stage)
    found["draws"] = [place for place, variable in named if id(variable) in draws]
    (folder / "found.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("jax")
    path = tmp_path_factory.mktemp("jax")
    root = str(Path(msd.__path__[0]).parent)
    own = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    command = [sys.executable, __file__, str(path)]
    subprocess.run(command, check=True, env=os.environ | own)
    return path


@pytest.fixture(scope="module")
def found(folder):
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def both(folder):
    return compute(), dict(np.load(folder / "made.npz"))


def test_losses_and_terms_agree(both):
    here, there = both
    assert here.keys() == there.keys()
    for name in here:
        if name.startswith("loss/"):
            assert here[name] != 0
            np.testing.assert_allclose(here[name], there[name], rtol=1e-6, err_msg=name)


def assert_near(change, wanted, share, name):
    """Two changes of a variable differ by at most a share of the largest entry."""
    largest = np.abs(wanted).max()
    if name.endswith("key/bias"):
        # Softmax ignores what all keys share, so only rounding moves this bias.
        assert largest < 1e-6 and np.abs(change).max() < 1e-6, name
        return
    assert largest > 1e-6, name
    assert np.abs(change - wanted).max() <= share * largest, name


@pytest.mark.parametrize("stage", STAGES)
def test_one_step_changes_every_variable_alike(both, stage):
    here, there = both
    trained = [name for name in here if name.startswith(f"step/{stage}/")]
    assert len(trained) == (24 if stage == BODY else 6)
    for name in trained:
        if stage in ("align_embedding", "per_token") and "/embedding/" not in name:
            assert not here[name].any() and not there[name].any(), name
        else:
            assert_near(there[name], here[name], 1e-4, name)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_a_word_that_occurs_twice_has_one_gradient(folder, chunk_size):
    """Of several replicas: test_stages_mirrored.py."""
    found, there = several_steps(chunk_size), np.load(folder / "several.npz")
    assert len(found) == 6
    for path, change in found.items():
        assert np.abs(change).max() > 1e-3
        assert_near(change, there[path], 1e-5, path)


def test_the_same_variables_decay(both):
    here, there = both
    decay = [name for name in here if name.startswith("decay/")]
    assert decay
    for name in decay:
        np.testing.assert_allclose(here[name], there[name], rtol=1e-6, err_msg=name)
        kept = name.rpartition("/")[2] in ("bias", "gamma", "beta")
        assert here[name].any() != kept, name


def test_training_goes_on_where_it_was_cut(folder, found):
    whole, stopped, start = (
        np.load(folder / f"{name}.npz")
        for name in ("whole_after", "stopped_after", "start")
    )
    assert len(whole) == len(stopped) > 10
    for place, value in whole.items():
        np.testing.assert_array_equal(value, stopped[place])
    (last, *_) = sorted(path.name for path in (folder / "stopped").iterdir())
    assert last == "update_0000000004"  # behind the cut, so that it went on from there
    assert found["draws"]  # of dropout, anew in each step
    assert all((whole[place] != start[place]).any() for place in found["draws"])


def test_a_profile_measures_updates_and_leaves_the_stage_as_it_was(folder, found):
    it = found["profile"]
    names = ["updates", "compile", "data_wait", "update", "shapes", "compilations"]
    assert list(it) == names and it["compilations"] == it["shapes"]
    assert it["updates"] == 2 and it["update"] > 0
    assert all(np.isfinite(value) and value >= 0 for value in it.values())
    before, after = (
        np.load(folder / f"{it}.npz") for it in ("stopped_after", "profiled")
    )
    for place, value in before.items():
        np.testing.assert_array_equal(value, after[place])


def test_scores_during_training_are_those_under_tensorflow(found):
    value = found["scores"]
    test_evaluate_callbacks.check(value)
    ours = test_evaluate_callbacks.run()["history"]
    for name, scores in value["history"].items():
        assert scores == pytest.approx(ours[name], rel=1e-3), name


def test_a_checkpoint_of_one_backend_is_refused_by_the_other(folder, tokenizer):
    encoder = tiny_encoder(tokenizer, num_layers=0)
    guides = {"teacher": (msd.data.GuideStore(encoder, folder / "others"), "source")}
    batches = msd.data.PairBatches(tiny_pairs(), encoder, guides, 4, epochs=3)
    stage = TeachAssistant(encoder)
    stage.compile("adam")
    with pytest.raises(InputError, match="Received: backend tensorflow; there: jax"):
        fit(stage, batches, folder / "whole")


def test_tensorflow_gives_the_same_vectors_for_the_saved_encoder(folder):
    made = msd.load_encoder(folder / "encoder").encode(TEXTS)
    there = np.load(folder / "vectors.npy")
    np.testing.assert_allclose(np.linalg.norm(there, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(made, there, atol=1e-5)


if __name__ == "__main__":
    for module in BLOCKED:
        sys.modules[module] = None  # any import of it fails
    place = Path(sys.argv[1])
    path_through_everything(place)
    # NumPy draws all that follows; JAX would compile each initializer.
    keras.initializers.TruncatedNormal.__call__ = zeros
    keras.initializers.GlorotUniform.__call__ = zeros
    np.savez(place / "made.npz", **compute())
    np.savez(place / "several.npz", **several_steps())
    if any(sys.modules[module] is not None for module in BLOCKED):
        sys.exit("TensorFlow was imported")
