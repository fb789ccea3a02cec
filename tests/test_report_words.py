"""Settings in words: whatever a recipe sets and a run uses is said."""

import copy
from dataclasses import replace

import pytest

from keras_msd.recipes import STAGE_KINDS
from keras_msd.recipes.schema.folders import recipe_files
from keras_msd.recipes.schema.loading import describe, load_recipe
from keras_msd.report.words import settings_in_words

SHOWN_ELSEWHERE = ("recipe", "scale", "budget")
STUDENT_STAGES = ("align_embedding", "teach_student", "contrastive_learning")
# Values that a change must keep, for what else it would switch off.
KEPT = {"student.kind", "assistant.source"}


def leaves(value, path=""):
    """Yield (dotted key, value) of everything that is no table with keys in it."""
    for key, own in value.items():
        if isinstance(own, dict) and key != "sets":
            yield from leaves(own, f"{path}{key}.")
        else:
            yield f"{path}{key}", own


def changed(settings, dotted, value):
    """Return settings with another value at a dotted key."""
    result = copy.deepcopy(settings)
    own = result
    *parts, last = dotted.split(".")
    for part in parts:
        own = own[part]
    own[last] = other(value)
    return result


def other(value):
    """Return a value of the same kind that is not this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        return {"another": "over_5"}
    if isinstance(value, list):
        return [*value, "another"]
    if isinstance(value, str):
        return {"mean": "sum", "sum": "mean"}.get(value, f"{value}x")
    return 7.5 if value == float("inf") else value + 1


def unused(settings, dotted):
    """Return whether a run with these settings never reads the one at `dotted`."""
    section, _, key = dotted.partition(".")
    own = settings.get(section, {})
    student, assistant = settings["student"], settings["assistant"]
    if section == "assistant":
        return assistant["source"] != "new" and assistant["start"] != "body"
    if section == "student":
        thin = student["kind"] == "thin_deep"
        unread = thin and key in ("unit_layers", "layers", "guide")
        return student["kind"] == "none" or unread
    if section == "starts" and key != "closed_form":
        branch = assistant["source"] == "new" and assistant["word_branch"]
        fitted = assistant["source"] == "new" and assistant["start"] != "random"
        ridge = own["closed_form"] or fitted or branch or "ridge" in str(student)
        begun = student["kind"] != "none" and "svd" in str(student)
        given = assistant["source"] not in ("new", "none") and begun
        return not (ridge if key == "ridge" else branch or given)
    if section == "stages":
        name, _, key = key.partition(".")
        return unused_of_stage(settings, name, key)
    return dotted == "data.sts_train_rows" and not own["sts_train_rows"]


def unused_of_stage(settings, name, key):
    """Return the same for a key of a stage."""
    own, student = settings["stages"][name], settings["student"]
    if name in STUDENT_STAGES and student["kind"] == "none":
        return True
    if name == "reduce_teacher" and not own["widths"] and key != "widths":
        return "synchronized" not in str(settings["stages"]["teach_thin_deep"])
    left_out = own["skip"] and name not in str(student)
    return left_out and key != "skip" or (key == "warmup" and "warmup_steps" in own)


CASES = [
    ("lealla_small", "paper"), ("lealla_small_ams_syn", "smoke"), ("lealla_lab", "lab"),
    ("lealla_dimensions", "paper"), ("xkd_lab", "lab"), ("msd_lab", "lab"),
    ("xkd_legal_bertimbau_base", "paper"), ("msd_convergence", "lab"),
    ("msd_sizes", "paper"), ("msd_labse", "paper"), ("demo", "demo"),
    ("msd_assistant", "lab"), ("tiny12", "lab"), ("msd_mbert_nli_stsb", "smoke"),
    ("msd_mbert_nli_stsb", "paper"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_no_setting_that_a_run_uses_is_unspoken(name, scale):
    settings = load_recipe(name, scale).settings()
    words = settings_in_words(settings)
    tried = 0
    for dotted, value in leaves(settings):
        if dotted.partition(".")[0] in SHOWN_ELSEWHERE or dotted in KEPT:
            continue
        if unused(settings, dotted):
            continue
        assert settings_in_words(changed(settings, dotted, value)) != words, dotted
        tried += 1
    assert tried > 20
    assert settings_in_words(changed(settings, "recipe.seed", 0)) != words


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_two_recipes_have_the_same_words_only_where_their_settings_are_the_same(scale):
    found = {}
    for name, path in recipe_files().items():
        if scale in describe(path).scales:
            settings = load_recipe(path, scale).settings()
            words = tuple(settings_in_words(settings))
            own = {k: v for k, v in settings.items() if k not in SHOWN_ELSEWHERE}
            assert found.setdefault(words, own) == own, name
    assert len(found) > 30


def test_keys_that_nobody_foresaw_are_said_by_name():
    settings = load_recipe("msd_lab", "smoke").settings()
    for section in (*settings["stages"], "teacher", "data", "evaluate"):
        at = settings["stages"].get(section) or settings[section]
        at["new_key"] = 12345
    settings["stages"]["new_stage"] = {"steps": 54321}
    settings["section"] = {"new_key": "yonder"}
    words = dict(settings_in_words(settings))
    for part in ("Teacher", "Data", "Scores", "Stage teach student"):
        assert "new key 12,345" in words[part]
    assert words["Stage new stage"] == "54,321 steps."
    assert words["Section"] == "section new key yonder."


def test_kinds_are_told_apart():
    small = dict(settings_in_words(load_recipe("lealla_small", "paper").settings()))
    alone = dict(settings_in_words(load_recipe("lealla_small_fd", "paper").settings()))
    assert small["Student"] == (
        "a thin, deep encoder; shape of row LEALLA-small of the paper; dropout 0.1; "
        "start: random."
    )
    assert small["Tokenizer"] == "the teacher's own."
    stage = small["Stage teach thin deep"]
    assert "warm-up over 5,000 steps" in stage and "0.1 of the steps" not in stage
    assert "weight of AMS 1.0" in stage
    assert "weight of AMS 0.0" in alone["Stage teach thin deep"]
    assert "Assistant" not in small and "teach assistant" in small["Stages not run"]
    distilled = dict(settings_in_words(load_recipe("xkd_lab", "lab").settings()))
    assert "Student" not in distilled and "Stage teach student" not in distilled
    assert "stsb over_5" in distilled["Stage regress similarity"]
    syn = load_recipe("lealla_small_ams_syn", "paper").settings()
    assert "Stage reduce teacher" in dict(settings_in_words(syn))
    assert "Stage reduce teacher" not in small


def test_a_stage_is_said_before_and_after_it_is_known():
    settings = load_recipe("msd_lab", "smoke").settings()
    settings["stages"]["nod"] = {"steps": 5}
    before = dict(settings_in_words(settings))
    kind = replace(STAGE_KINDS["teach_student"], name="nod", loss_words="nods are sums")
    STAGE_KINDS.register(kind)
    try:
        known = dict(settings_in_words(settings))
        settings["student"] = {"kind": "none"}
        alone = dict(settings_in_words(settings))
    finally:
        STAGE_KINDS.remove("nod")
    assert before["Stage nod"] == known["Stage nod"] == "5 steps."
    assert "nods are sums" in known["Losses"] and "nods" not in before["Losses"]
    assert "Stage nod" not in alone  # it imitates an assistant, and no student has it
    assert dict(settings_in_words(settings))["Stage nod"] == "5 steps."
