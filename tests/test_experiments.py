"""Tables over seeds, and the starts of their rows."""

import sys
from pathlib import Path

import numpy as np
import pytest
from small_recipe import write_place

from keras_msd.io.files import read_json, write_json
from keras_msd.models.encoder import load_saved, new_encoder
from keras_msd.recipes import load_recipe, run
from keras_msd.testing import tiny_tokenizer

pytestmark = pytest.mark.usefixtures("no_graphs")

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
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
teach_assistant = { steps = 1 }
teach_student = { steps = 5 }
contrastive_learning = { scored = 2 }
"""


@pytest.fixture
def ablations(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import ablations

    yield ablations
    sys.modules.pop("ablations", None)


@pytest.fixture(scope="module")
def assistant(tmp_path_factory):
    shape = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
    encoder = new_encoder(tiny_tokenizer(), dropout=0.0, **shape)
    encoder.save(folder := tmp_path_factory.mktemp("narrow") / "assistant")
    return folder


def given(ablations, folder, *words):
    options = [f"--{name}={folder / name}" for name in ("out", "store")]
    result = f"--result={folder / 'result.json'}"
    return ablations.parser().parse_args([*options, result, "--scale=smoke", *words])


@pytest.fixture
def small(ablations, assistant, tmp_path, monkeypatch):
    """Return the module with one small table, and options for its runs."""
    place = write_place(tmp_path)
    recipe = place / "arms.toml"
    recipe.write_text(RECIPE)
    monkeypatch.setitem(ablations.TABLES, "made", (str(recipe), {}))
    words = [f"--assistant={assistant}", f"--data={place / 'data'}"]
    return ablations, lambda *more: given(ablations, tmp_path, *words, *more)


@pytest.mark.slow
def test_seeds_share_the_assistant_that_is_given(small, assistant):
    ablations, options_with = small
    options = options_with("--seeds", "0", "1")
    ablations.over_seeds("made", options)
    table = read_json(options.result)["tables"]["made"]
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
        ended = {"teach_student_prekd": rows["student_prekd"]["cross_lingual"]}
        assert seed["ends"] == ended
    layer = "body/block_0/feedforward_output_dense/kernel"
    for seed in (0, 1):
        stages = options.out / f"made_{seed}" / "stages"
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
    ablations.over_seeds("made", options)
    assert options.result.read_bytes() == done
    ablations.TABLES["made"] = (ablations.TABLES["made"][0], {"starts.ridge": 1})
    with pytest.raises(SystemExit, match="has made as it was"):
        ablations.over_seeds("made", options)


@pytest.mark.parametrize("stage_1", [True, False])
def test_every_table_can_be_run_to_its_starts(ablations, stage_1):
    for table, (recipe, changes) in ablations.TABLES.items():
        scale = "backbone" if recipe in ("msd_stages", ablations.OF_BACKBONE) else "lab"
        found = ablations.untrained(recipe, scale, changes, stage_1)
        loaded = load_recipe(recipe, scale, found)
        trained = [stage for stage in loaded.stages.values() if not stage.skip]
        rates = [it.learning_rate for it in (*trained, loaded.reduction)]
        assert 1e-9 in rates, table
        students = load_recipe(recipe, scale, changes).student.each()
        assert loaded.student.each().keys() == students.keys(), table


def test_rows_before_the_last_stay_where_they_are_measured_in_full(ablations):
    def row(name, student=None, **scores):
        kind = (
            {"kind": "stage", "student": student} if student else {"kind": "assistant"}
        )
        return {"name": name, **kind, **scores}

    raw, taught = row("raw", monolingual=1.0), row("taught", monolingual=2.0)
    across = row("student, first", "student", cross_lingual=3.0)
    full = row("student, second", "student", cross_lingual=4.0, monolingual=5.0)
    last = row("student, third", "student", cross_lingual=6.0, monolingual=7.0)
    found = ablations.last_rows([raw, taught, across, full, last])
    wanted = {"raw": raw, "assistant": taught, "student, second": full, "student": last}
    assert found == wanted


@pytest.mark.slow
def test_starts_are_the_scores_before_a_row_is_trained(small, tmp_path):
    """They are held against the rows that a run scores before its stages."""
    ablations, options_with = small
    options = options_with("--seeds", "0", "--starts")
    ablations.over_seeds("made", options)
    starts = read_json(options.result)["tables"]["made"]["starts"]
    recipe, changes = ablations.TABLES["made"][0], ablations.changes_of("made", options)
    full = changes | {"evaluate.intermediate": "full"}
    done = run(recipe, tmp_path / "full", "smoke", options.data, overrides=full)
    before = {
        row.get("student", "assistant"): row
        for row in reversed(done["rows"])
        if row["kind"] == "untrained" or row["name"] == "assistant before stage 1"
    }
    assert starts.keys() == before.keys() == {"assistant", "student", "student_prekd"}
    for name, row in before.items():
        for key, score in starts[name].items():
            assert row[key] == pytest.approx(score, abs=1e-3), (name, key)


def test_a_result_is_of_its_settings_and_of_the_assistant(
    ablations, assistant, tmp_path
):
    options = given(ablations, tmp_path, f"--assistant={assistant}")
    changes = ablations.changes_of("msd_sizes", options)
    assert changes["evaluate.part"] == "report"
    said = ablations.named(changes)
    assert said["assistant.source"] == load_saved(assistant).fingerprint
    digest = ablations.settings_digest("msd_sizes", "smoke", said)
    for other in ({"evaluate.part": "all"}, {"assistant.source": "another"}):
        assert ablations.settings_digest("msd_sizes", "smoke", said | other) != digest
    titled = said | {"recipe.title": "Another", "recipe.seed": 3}
    assert ablations.settings_digest("msd_sizes", "smoke", titled) == digest


@pytest.mark.slow
def test_widths_of_a_teacher_are_rows_beside_its_own(
    ablations, assistant, tmp_path, monkeypatch
):
    table = "lealla_dimensions"
    teacher = {"source": str(assistant), "dim": 16, "multilingual": True}
    short = {"reduction.steps": 2, "teacher": teacher}
    monkeypatch.setitem(ablations.TABLES, table, (table, short))
    options = given(ablations, tmp_path, "--seeds", "0")
    ablations.over_seeds(table, options)
    rows = read_json(options.result)["tables"][table]["seeds"]["0"]["rows"]
    assert rows.keys() == {"teacher", "reduced_16", "reduced_8"}
    (scores,) = options.out.glob("*/scores.json")
    for row in read_json(scores)["rows"]:
        assert rows[row["kind"]]["cross_lingual"] == row["cross_lingual"]


def test_a_file_of_another_scale_is_left_alone(ablations, tmp_path):
    options = given(ablations, tmp_path)
    write_json(options.result, {"scale": "lab", "tables": {}})
    with pytest.raises(SystemExit, match="is of scale lab; move it"):
        ablations.over_seeds("msd_sizes", options)


def test_what_another_run_writes_meanwhile_stays(ablations, tmp_path, monkeypatch):
    options = given(ablations, tmp_path, "--seeds", "0")
    other = {"seeds": {"0": {"rows": {}}}}

    def run_table(*_):
        write_json(options.result, {"scale": "smoke", "tables": {"other": other}})
        return {"rows": {}, "last_tenth": {}}

    monkeypatch.setattr(ablations, "run_table", run_table)
    ablations.over_seeds("msd_sizes", options)
    tables = read_json(options.result)["tables"]
    assert tables["other"] == other
    assert [*tables["msd_sizes"]["seeds"]] == ["0"]
