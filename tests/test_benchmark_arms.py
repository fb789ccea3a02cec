"""Benchmarks of arms: seeds, an assistant that is given, what a result is of."""

import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from small_recipe import german, sentences, write_place, write_rows

from keras_msd.evaluate.halves import halves
from keras_msd.files import read_json, write_json
from keras_msd.models.encoder import load_saved, new_encoder
from keras_msd.recipes import load_recipe
from keras_msd.testing.tiny import tiny_tokenizer

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RECIPE = """
extends = "small"
[student]
start = "random"
layers = "untrained"
[student.stages]
teach_student = { skip = true }
align_embedding = { skip = true }
contrastive_learning = { target = "none" }
[student.variants.prekd]
guide = "untrained"
stages = { teach_student = { skip = false }, contrastive_learning = { skip = true } }
[smoke.stages]
teach_assistant = { steps = 1, token_budget = 300 }
teach_student = { steps = 5 }
contrastive_learning = { scored = 2 }
"""


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield __import__
    for name in ("arms", "stages", "ablations", "bias", "curves"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def assistant(tmp_path_factory):
    shape = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
    encoder = new_encoder(tiny_tokenizer(), dropout=0.0, **shape)
    encoder.save(folder := tmp_path_factory.mktemp("narrow") / "assistant")
    return folder


def given(arms, folder, *words):
    options = [f"--{name}={folder / name}" for name in ("out", "store")]
    result = f"--result={folder / 'result.json'}"
    return arms.parser("", "x").parse_args([*options, result, "--scale=smoke", *words])


def test_seeds_share_the_assistant_that_is_given(modules, assistant, tmp_path, capsys):
    arms, place = modules("arms"), write_place(tmp_path)
    recipe = str(place / "arms.toml")
    Path(recipe).write_text(RECIPE)
    words = [f"--assistant={assistant}", f"--data={place / 'data'}"]
    options = given(arms, tmp_path, *words, "--seeds", "0", "1")
    changes = arms.changes(recipe, options, ("tatoeba",))
    arms.over_seeds("made arms", recipe, changes, options)
    table = read_json(options.result)["tables"]["made arms"]
    wanted = load_saved(assistant)
    assert table["changes"]["assistant.source"] == wanted.fingerprint
    assert list(table["seeds"]) == ["0", "1"]
    for seed in table["seeds"].values():
        rows = seed["rows"]
        assert {"assistant", "student", "student_prekd"} <= {*rows}
        assert {"cross_lingual", "monolingual"} <= {*rows["student"]}
        assert [step for step, _ in rows["student"]["curves"]["en-de"]] == [1, 2]
        assert "curves" not in rows["student_prekd"]
        assert list(seed["last_tenth"]) == ["teach_student_prekd"]
    moved = [
        seed["last_tenth"]["teach_student_prekd"] for seed in table["seeds"].values()
    ]
    assert (
        f"last tenth: teach_student_prekd {np.mean(moved):+.2f}"
        in capsys.readouterr().out
    )
    layer = "body/block_0/feedforward_output_dense/kernel"
    for seed in (0, 1):
        stages = options.out / f"made_arms_{seed}" / "stages"
        begun, taught, single, prekd = (
            load_saved(stages / step / "encoder").weights()
            for step in ("assistant_start", "teach_assistant", "untrained",
                         "untrained_prekd")
        )  # fmt: skip
        for path, value in wanted.weights().items():
            np.testing.assert_array_equal(begun[path], value)
        assert not np.array_equal(taught[layer], begun[layer])
        for student in (single, prekd):
            np.testing.assert_array_equal(student[layer], begun[layer])

    done = options.result.read_bytes()
    arms.over_seeds("made arms", recipe, changes, options)
    assert options.result.read_bytes() == done
    with pytest.raises(SystemExit, match="has made arms as it was"):
        arms.over_seeds("made arms", recipe, changes | {"starts.ridge": 1}, options)


def test_seeds_that_end_at_once_are_both_kept(modules, tmp_path, monkeypatch):
    arms, met = modules("arms"), threading.Barrier(2, timeout=60)
    scores = {"assistant": {"parameters": 1, "cross_lingual": 60.0}}

    def measure(*words):
        met.wait()
        return {"rows": scores, "last_tenth": {}}

    def slowly(path):
        found = read_json(path)
        time.sleep(0.2)
        return found

    monkeypatch.setattr(arms, "measure", measure)
    monkeypatch.setattr(arms, "read_json", slowly)
    writers = []
    for seed in "01":
        options = given(arms, tmp_path, "--seeds", seed)
        words = ("msd_sizes", "msd_sizes", {}, options)
        writers.append(threading.Thread(target=arms.over_seeds, args=words))
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    table = read_json(options.result)["tables"]["msd_sizes"]
    assert set(table["seeds"]) == {"0", "1"}


def test_a_result_is_of_its_settings_and_of_the_assistant(modules, assistant, tmp_path):
    arms = modules("arms")
    options = given(arms, tmp_path, f"--assistant={assistant}")
    changes = arms.changes("msd_sizes", options, ("tatoeba",))
    assert changes["evaluate.part"] == "report"
    said = arms.said(changes)
    assert said["assistant.source"] == load_saved(assistant).fingerprint
    digest = arms.settings_digest("msd_sizes", "smoke", said)
    for other in ({"evaluate.part": "all"}, {"assistant.source": "another"}):
        assert arms.settings_digest("msd_sizes", "smoke", said | other) != digest
    titled = said | {"recipe.title": "Another", "recipe.seed": 3}
    assert arms.settings_digest("msd_sizes", "smoke", titled) == digest


def test_a_recipe_without_an_assistant_may_have_a_teacher(
    modules, assistant, tmp_path, monkeypatch
):
    arms, ablations = modules("arms"), modules("ablations")
    words = [f"--assistant={assistant}", f"--teacher={assistant}"]
    options = given(arms, tmp_path, *words)
    assert "teacher.source" not in arms.changes("msd_sizes", options)
    changes = arms.changes("lealla_lab", options)
    assert "assistant.source" not in changes
    recipe = load_recipe("lealla_lab", "lab", changes)
    assert recipe.teacher.source == str(assistant) and recipe.teacher.multilingual
    fingerprint = load_saved(assistant).fingerprint
    assert arms.said(changes)["teacher.source"] == fingerprint
    named = []
    monkeypatch.setattr(ablations, "over_seeds", lambda *it: named.append(it[0]))
    for more in ([], words):
        argv = ["ablations.py", "--recipe", "lealla_lab", "msd_sizes", *more]
        monkeypatch.setattr(sys, "argv", argv)
        ablations.main()
    english = ["lealla_lab", "msd_sizes"]
    assert named == [*english, "lealla_lab, multilingual teacher", "msd_sizes"]


def test_widths_of_a_teacher_are_rows_beside_its_own(
    modules, assistant, tmp_path, capsys
):
    arms = modules("arms")
    options = given(arms, tmp_path, f"--teacher={assistant}", "--seeds", "0")
    short = {"stages.reduce_teacher.steps": 2, "teacher.dim": 16}
    changes = arms.changes("lealla_dimensions", options) | short
    arms.over_seeds("widths", "lealla_dimensions", changes, options)
    rows = read_json(options.result)["tables"]["widths"]["seeds"]["0"]["rows"]
    assert rows.keys() == {"teacher", "reduced_16", "reduced_8"}
    scores = read_json(options.out / "widths_0/scores.json")["rows"]
    for row in scores:
        assert rows[row["kind"]]["cross_lingual"] == row["cross_lingual"]
    shown = capsys.readouterr().out
    assert f"\nteacher{' ' * 41}       7,984  cross_lingual" in shown
    assert f"\nreduced_8{' ' * 51}  cross_lingual" in shown


def test_table_6_begins_with_the_assistant_or_with_a_new_one(
    modules, assistant, tmp_path, monkeypatch
):
    stages = modules("stages")
    called = []
    monkeypatch.setattr(stages, "over_seeds", lambda *it: called.append(it[:3]))
    for words in ([], [f"--assistant={assistant}"]):
        monkeypatch.setattr(sys, "argv", ["stages.py", *words])
        stages.main()
    names, recipes, changes = zip(*called, strict=True)
    assert names == ("random", "closed form") * 2 and {*recipes} == {"msd_stages"}
    loaded = [load_recipe("msd_stages", "lab", one) for one in changes]
    assert [one.student.start for one in loaded] == ["random", "svd"] * 2
    sources = ["new"] * 2 + [str(assistant)] * 2
    assert [one.assistant.source for one in loaded] == sources
    assert [one.assistant.start for one in loaded[:2]] == ["random", "ridge"]


def test_a_file_of_another_scale_is_left_alone(modules, tmp_path):
    arms = modules("arms")
    options = given(arms, tmp_path)
    write_json(options.result, {"scale": "lab", "tables": {}})
    with pytest.raises(SystemExit, match="is of scale lab; move it"):
        arms.over_seeds("x", "msd_sizes", {}, options)


def test_what_another_run_writes_meanwhile_stays(modules, tmp_path, monkeypatch):
    arms = modules("arms")
    options = given(arms, tmp_path, "--seeds", "0")
    other = {"seeds": {"0": {"rows": {}}}}

    def measure(*_):
        write_json(options.result, {"scale": "smoke", "tables": {"other": other}})
        return {"rows": {}, "last_tenth": {}}

    monkeypatch.setattr(arms, "measure", measure)
    arms.over_seeds("own", "msd_sizes", {}, options)
    tables = read_json(options.result)["tables"]
    assert tables["other"] == other
    assert [*tables["own"]["seeds"]] == ["0"]


def test_every_recipe_of_the_ablations_is_there(modules):
    for name in modules("ablations").RECIPES:
        assert "lab" in load_recipe(name).recipe.scales


def test_bias_is_of_all_tracks_on_the_reported_half(modules, assistant, tmp_path):
    bias, count = modules("bias"), 40
    pairs = list(zip(sentences(count, 1), sentences(count, 2), strict=True))
    for code, say in (("en", str), ("de", german)):
        rows = [(str(row % 6), say(a), say(b)) for row, (a, b) in enumerate(pairs)]
        write_rows(tmp_path / f"stsb.dev.{code}.tsv.gz", rows)
    found = bias.measure(load_saved(assistant), tmp_path, ["de"])
    reported = halves(pairs).count("report")
    assert 0 < reported < count and found["pairs"] == 3 * reported  # en, de, en-de
    assert found["unbiased"] == -abs(found["bias"])


def test_bias_of_several_seeds(modules, assistant, tmp_path, monkeypatch, capsys):
    bias, result = modules("bias"), tmp_path / "bias.json"
    scores = iter([2.5, 2.1, 2.3, 2.2])
    monkeypatch.setattr(bias, "measure", lambda *_: {"bias": next(scores)})
    names = [f"{name}={assistant}" for name in ("raw", "x-kd", "x-kd")]
    words = ["bias", f"--data={tmp_path}", f"--result={result}", "--encoder", *names]
    monkeypatch.setattr(sys, "argv", words)
    bias.main()
    seeds = read_json(result)["tables"]["bias"]["seeds"]
    found = [[row["bias"] for row in seed["rows"].values()] for seed in seeds.values()]
    assert found == [[2.5, 2.1], [2.5, 2.3]]
    fingerprint = load_saved(assistant).fingerprint
    assert seeds["0"]["rows"]["raw"]["encoder"] == fingerprint

    scores = iter(range(5))
    monkeypatch.setattr(sys, "argv", [*words, names[1], names[0]])
    with pytest.raises(SystemExit):
        bias.main()
    assert "raw has 2 seeds, others 3" in capsys.readouterr().err


def test_every_curve_is_drawn_as_the_mean_of_its_seeds(modules):
    curves = modules("curves")

    def rows(by):
        of = {"en-de": [[5, 1.0 + by], [10, 3.0]], "cross_lingual": [[5, 2.0], [10, 4]]}
        return {
            "student": {"curves": of},
            "student_ce": {"curves": of},
            "assistant": {},
        }

    found = curves.curves_of([rows(0.0), rows(1.0)])
    figure = curves.draw(found, {"student": "Ours", "student_ce": "CE"})
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["en-de", "mean", "", ""]
    for panel, scores in zip(figure.axes, ([1.5, 3.0], [2.0, 4.0]), strict=False):
        lines = panel.get_lines()
        assert [line.get_label() for line in lines] == ["Ours", "CE"]
        for line in lines:
            np.testing.assert_array_equal(line.get_xdata(), [5, 10])
            np.testing.assert_array_equal(line.get_ydata(), scores)
    words = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert words == ["Ours", "CE"]


def test_the_committed_curves_are_those_of_the_committed_result(modules):
    curves = modules("curves")
    assert curves.said(curves.committed()) in curves.PLOT.read_text(encoding="utf-8")
