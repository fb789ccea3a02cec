"""What an update's time goes into, and which precision is faster."""

import time

import keras
import numpy as np
import pytest

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.recipes.cache import RunFolder
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import Run
from keras_msd.training import profile
from keras_msd.training.profile import computing_in, faster_precision
from keras_msd.training.resume import stage_variables


@pytest.fixture
def work(tmp_path, tokenizer):
    pairs = msd.testing.tiny_pairs()
    encoder, student = (
        msd.testing.tiny_encoder(tokenizer, num_layers=0) for _ in range(2)
    )
    guides = {"teacher": (msd.data.GuideStore(encoder, tmp_path), "source")}
    stage = msd.stages.TeachAssistant(student)
    stage.compile(msd.training.make_optimizer(learning_rate=1e-2, steps=9))

    def batches():
        return msd.data.PairBatches(pairs, encoder, guides, batch_size=2, epochs=2)

    return stage, batches


def values(stage):
    return [np.array(variable.value) for _, variable in stage_variables(stage)]


def test_a_stage_stays_as_it_was(work):
    stage, batches = work
    stage.fit(batches(), steps_per_epoch=2, verbose=0, shuffle=False)
    before = values(stage)
    kept = list(batches())
    found = msd.training.profile_updates(stage, batches(), updates=3)
    assert found.pop("updates") == 3
    lengths = {
        x["source_token_ids"].shape + x["target_token_ids"].shape for x, _ in kept
    }
    assert found.pop("shapes") == len(lengths)
    assert found.pop("compilations") == 0  # no XLA on a processor
    assert set(found) == {"compile", "data_wait", "update"}
    assert min(found.values()) > 0
    assert len(before) > 10
    for old, new in zip(before, values(stage), strict=True):
        np.testing.assert_array_equal(old, new)


def test_slow_data_is_found(work):
    stage, batches = work
    kept = list(batches())

    def slowly():
        for batch in kept:
            time.sleep(0.2)
            yield batch

    found = msd.training.profile_updates(stage, slowly(), updates=3)
    assert found["data_wait"] >= 0.6


def test_what_compiles_every_length_anew_is_not_taken_for_slow(work, monkeypatch):
    stage, _ = work
    lengths = set()

    def seconds(stage, batch):
        spent = 0.01 if len(batch[0]) in lengths else 1.0
        lengths.add(len(batch[0]))
        return spent

    monkeypatch.setattr(profile, "_seconds", seconds)
    found = msd.training.profile_updates(
        stage, [("short", 0), ("longer", 0)], updates=2
    )
    assert found["update"] == pytest.approx(0.02)
    assert found["compile"] == pytest.approx(2 * 0.99)


def test_too_few_batches_are_an_error(work):
    stage, batches = work
    before = values(stage)
    with pytest.raises(InputError, match="at least 99 batches to measure. Received:"):
        msd.training.profile_updates(stage, batches(), updates=99)
    for old, new in zip(before, values(stage), strict=False):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [((1.0, 0.5), "bfloat16"), ((1.0, 0.9), "float32"), ((1.0, 2.0), "float32")],
)
def test_the_coarser_one_must_be_clearly_faster(monkeypatch, seconds, wanted):
    measured = dict(zip(("float32", "bfloat16"), seconds, strict=True))
    monkeypatch.setattr(profile, "_product_seconds", measured.get)
    assert faster_precision() == wanted


def test_both_are_measured_here():
    assert faster_precision() in ("float32", "bfloat16")


def test_the_policy_is_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), computing_in("bfloat16"):
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
        1 / 0  # noqa: B018
    assert keras.config.dtype_policy().name == "float32"


def test_a_run_goes_on_with_the_precision_it_measured(tmp_path, monkeypatch):
    recipe = load_recipe("xkd_lab", "smoke", {"precision": "auto"})
    name = "keras_msd.recipes.resources.faster_precision"
    monkeypatch.setattr(name, lambda: "bfloat16")
    folder = RunFolder(tmp_path, recipe)
    first = Run(recipe, folder, (), tmp_path)
    (tmp_path / "stages").mkdir()
    assert first.precision == "bfloat16"
    folder.claim()
    monkeypatch.setattr(name, lambda: "float32")
    again = Run(recipe, RunFolder(tmp_path, recipe), (), tmp_path)
    assert again.precision == "bfloat16"
    given = load_recipe("xkd_lab", "smoke")
    assert Run(given, folder, (), tmp_path).precision == "float32"
