from html import unescape
from pathlib import Path

import pytest

from keras_msd.checks import InputError
from keras_msd.io.files import read_json
from keras_msd.recipes import run_all, several
from keras_msd.recipes.listing import describe, with_scale


@pytest.fixture
def one(monkeypatch):
    """Replace the runner of one recipe; recipes called `bad` raise what is set here."""

    def run(name, out, *rest, share_steps):
        assert share_steps
        if name == "bad":
            raise run.error
        return {"recipe": name, "folder": str(out)}

    run.error = InputError("no such thing")
    monkeypatch.setattr(several, "run", run)
    return run


@pytest.mark.parametrize("error", [InputError("x"), MemoryError("y"), KeyError("z")])
def test_it_goes_on_past_any_failure(tmp_path, one, error):
    one.error = error
    results = run_all(["bad", "good"], out_dir=tmp_path)
    name = f"{type(error).__name__}: {error}"
    assert [result.get("error") for result in results] == [name, None]
    assert results[1]["folder"] == str(tmp_path / "good")
    assert read_json(tmp_path / "results.json") == results
    assert "Traceback" in (tmp_path / "errors/bad.txt").read_text()
    report = unescape((tmp_path / "report.html").read_text())
    assert "Recipes that failed" in report
    assert f"<th scope=row>bad</th><td>{name}</td>" in report


def test_its_folder_is_that_of_the_scale(tmp_path, one, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (result,) = run_all(["good"], "lab")
    assert Path(result["folder"]) == Path("runs/all/lab/good")
    assert Path("runs/all/lab/results.json").is_file()
    (result,) = run_all(["good"], None)
    assert Path(result["folder"]) == Path("runs/all/default/good")


def test_what_it_refuses(tmp_path, one):
    for names in ("xkd_lab", Path("xkd_lab.toml")):
        with pytest.raises(InputError, match="Received: .*xkd_lab.* Put it in a list"):
            run_all(names, out_dir=tmp_path)
    with pytest.raises(InputError, match="`names`: text must be Unicode"):
        run_all(iter(["good", "b\udcff"]), out_dir=tmp_path)
    assert not any(tmp_path.iterdir())
    (tmp_path / "recipe.toml").touch()
    with pytest.raises(InputError, match="which is a run itself"):
        run_all(["good"], out_dir=tmp_path)


def test_an_interruption_ends_it(tmp_path, one):
    one.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run_all(["bad", "good"], out_dir=tmp_path)


def test_without_names_every_recipe_that_has_the_scale(tmp_path, one):
    names = [result["recipe"] for result in run_all(scale="lab", out_dir=tmp_path)]
    assert names == with_scale("lab")
    assert "msd_ablations" in names and "demo" not in names
    assert all("lab" in describe(name).scales for name in names)
    assert set(names) < set(with_scale("smoke")) <= set(with_scale(None))
