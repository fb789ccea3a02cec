"""From a TSV file to a trained student under JAX, where TensorFlow cannot be imported.

This file is also the program that runs there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_msd
from keras_msd.checks import InputError

BLOCKED = ("tensorflow", "tensorflow_text")
ORDER = ("teach_assistant", "align_embedding", "teach_student", "contrastive_learning")
TEXTS = ["The cat sleeps.", "Die Katze schläft.", ""]


def path_through_everything(folder):
    import keras
    import test_evaluate_callbacks

    from keras_msd import stages, training
    from keras_msd.data.batches import PairBatches
    from keras_msd.data.readers import read_pairs
    from keras_msd.data.store import GuideStore
    from keras_msd.load import load_encoder
    from keras_msd.models.student import build_student
    from keras_msd.stages import STAGES
    from keras_msd.testing import tiny_encoder, tiny_pairs, tiny_tokenizer
    from keras_msd.training.resume import stage_variables

    keras.utils.set_random_seed(7)
    lines = [f"{p.source}\t{p.target}\n" for p in tiny_pairs() if p.language == "de"]
    (folder / "tiny.en-de.tsv").write_text("".join(lines), encoding="utf-8")
    pairs = read_pairs(folder / "tiny.en-de.tsv")
    tokenizer = tiny_tokenizer()
    teacher = tiny_encoder(tokenizer, num_layers=0)
    assistant = tiny_encoder(tokenizer, dropout=0.0, num_layers=1)
    student = build_student(assistant, unit_layers=1, bottleneck_dim=4, repeats=2)

    def guides(stage):
        if stage == "align_embedding":
            store = GuideStore(assistant.embedding_guide(), folder / "block")
            return {f"embedding_{side}": (store, side) for side in ("source", "target")}
        if stage == "teach_student":
            store = GuideStore(assistant, folder / "assistant")
            return {f"assistant_{side}": (store, side) for side in ("source", "target")}
        return {"teacher": (GuideStore(teacher, folder / "teacher"), "source")}

    # Batches of one shape: JAX compiles a program for each.
    options = {"batch_size": 4, "multiple": 32, "folder": folder / "tokens"}
    histories = {}
    for name in ORDER:
        encoder = assistant if name == "teach_assistant" else student
        batches = PairBatches(pairs, encoder, guides(name), **options)
        stage = STAGES[name].make(encoder)
        stage.compile(training.make_optimizer(0.01, steps=16, warmup=0))
        done = stage.fit(batches, epochs=16, shuffle=False, verbose=0)
        histories[name] = done.history
    student.save(folder / "student")
    vectors = student.encode(TEXTS)
    again = load_encoder(folder / "student").encode(TEXTS)
    np.savez(folder / "vectors.npz", vectors=vectors, again=again)

    def trained(name, stop=None):
        keras.utils.set_random_seed(3)
        encoder = tiny_encoder(tokenizer, num_layers=0, dropout=0.1)
        batches = PairBatches(pairs, encoder, guides(ORDER[0]), epochs=6, **options)
        stage = stages.TeachAssistant(encoder)
        stage.compile(training.make_optimizer(0.01, steps=6))
        stop = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
        training.fit(stage, batches, folder / name, 0, callbacks=[stop], verbose=0)
        return encoder.weights()

    def cut(batch, logs):
        if batch == 3:
            raise EOFError

    np.savez(folder / "whole.npz", **trained("whole"))
    try:
        trained("stopped", cut)
    except EOFError:
        np.savez(folder / "stopped.npz", **trained("stopped"))
    (folder / "histories.json").write_text(json.dumps(histories))

    encoder = tiny_encoder(tokenizer, num_layers=0, dropout=0.1)
    batches = PairBatches(pairs, encoder, guides(ORDER[0]), epochs=2, **options)
    stage = stages.TeachAssistant(encoder)
    stage.compile(training.make_optimizer(0.01, steps=6, warmup=0))

    def values():
        named = stage_variables(stage)
        return {place: np.array(variable.value) for place, variable in named}

    stage.fit(batches, verbose=0, shuffle=False)
    np.savez(folder / "before.npz", **values())
    found = training.profile_updates(stage, batches, updates=2)
    np.savez(folder / "after.npz", **values())
    done = int(stage.optimizer.iterations.value)
    (folder / "profile.json").write_text(json.dumps([found, done]))
    (folder / "scores.json").write_text(json.dumps(test_evaluate_callbacks.run()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("jax")
    path = tmp_path_factory.mktemp("jax")
    root = str(Path(keras_msd.__path__[0]).parent)
    own = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    command = [sys.executable, __file__, str(path)]
    subprocess.run(command, check=True, env=os.environ | own)
    return path


def test_every_stage_learns(folder):
    histories = json.loads((folder / "histories.json").read_text())
    assert list(histories) == list(ORDER)
    for history in histories.values():
        assert history["loss"][-1] < history["loss"][0]
    assert set(histories["contrastive_learning"]) == {
        "loss",
        "source_mse",
        "target_mse",
        "contrastive",
    }


def test_the_student_encodes_and_loads_back(folder):
    made = np.load(folder / "vectors.npz")
    assert made["vectors"].shape == (len(TEXTS), 16)
    norms = np.linalg.norm(made["vectors"], axis=1)
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    np.testing.assert_allclose(made["vectors"], made["again"], atol=1e-6)


def test_training_goes_on_where_it_was_cut(folder):
    whole, stopped = np.load(folder / "whole.npz"), np.load(folder / "stopped.npz")
    for path, weights in whole.items():
        np.testing.assert_array_equal(weights, stopped[path])
    (last, *_) = sorted(path.name for path in (folder / "stopped").iterdir())
    assert last == "update_0000000004"  # behind the cut, so that it went on from there


def test_a_profile_measures_updates_and_leaves_the_stage_as_it_was(folder):
    found, done = json.loads((folder / "profile.json").read_text())
    names = ["updates", "compile", "data_wait", "update", "shapes", "compilations"]
    assert list(found) == names and found["compilations"] == found["shapes"]
    assert found["updates"] == 2 and found["update"] > 0
    assert all(np.isfinite(value) and value >= 0 for value in found.values())
    before, after = np.load(folder / "before.npz"), np.load(folder / "after.npz")
    assert len(before) > 10 and list(before) == list(after)
    for place, value in before.items():
        np.testing.assert_array_equal(value, after[place])
    assert done == 2  # batches of `fit`, none of the profile


def test_scores_during_training_are_those_under_tensorflow(folder):
    import test_evaluate_callbacks

    value = json.loads((folder / "scores.json").read_text())
    test_evaluate_callbacks.check(value)
    ours = test_evaluate_callbacks.run()["history"]
    for name, values in value["history"].items():
        assert values == pytest.approx(ours[name], rel=1e-3), name


def test_a_checkpoint_of_one_backend_is_refused_by_the_other(folder, tokenizer):
    encoder = keras_msd.testing.tiny_encoder(tokenizer, num_layers=0)
    vectors = keras_msd.data.GuideStore(encoder, folder / "others")
    batches = keras_msd.data.PairBatches(
        keras_msd.testing.tiny_pairs(), encoder, {"teacher": (vectors, "source")}, 4,
        epochs=3,
    )  # fmt: skip
    stage = keras_msd.stages.TeachAssistant(encoder)
    stage.compile("adam")
    with pytest.raises(InputError, match="Received: backend tensorflow; there: jax"):
        keras_msd.training.fit(stage, batches, folder / "whole")


def test_tensorflow_gives_the_same_vectors_for_the_saved_student(folder):
    from keras_msd.load import load_encoder

    made = load_encoder(folder / "student").encode(TEXTS)
    np.testing.assert_allclose(
        made, np.load(folder / "vectors.npz")["vectors"], atol=1e-5
    )


if __name__ == "__main__":
    for module in BLOCKED:
        sys.modules[module] = None  # any import of it fails
    path_through_everything(Path(sys.argv[1]))
    if any(sys.modules[module] is not None for module in BLOCKED):
        sys.exit("TensorFlow was imported")
