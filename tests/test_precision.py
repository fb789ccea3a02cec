"""What stages compute in: chosen by a measurement, kept by a run, float32 on disk."""

import keras
import pytest

from keras_msd.recipes.cache import RunFolder
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import Run
from keras_msd.training import precision
from keras_msd.training.precision import computing_in, faster_precision


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [((1.0, 0.5), "bfloat16"), ((1.0, 0.9), "float32"), ((1.0, 2.0), "float32")],
)
def test_the_coarser_one_must_be_clearly_faster(monkeypatch, seconds, wanted):
    measured = dict(zip(("float32", "bfloat16"), seconds, strict=True))
    monkeypatch.setattr(precision, "_seconds", measured.get)
    assert faster_precision() == wanted


def test_both_are_measured_here():
    assert faster_precision() in ("float32", "bfloat16")
    assert precision._seconds("float32") > 0


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
