import tomllib

import pytest

from keras_msd.checks import InputError
from keras_msd.recipes import load
from keras_msd.recipes.cache import RunFolder
from keras_msd.recipes.listing import about_recipe
from keras_msd.recipes.load import (
    Place,
    find_recipe,
    load_recipe,
    merge,
    parse_override,
    recipe_folder,
    recipe_from,
    recipe_names,
)

SMALL = """
extends = "_shared"
[recipe]
name = "mine"
title = "Mine"
[student]
bottleneck_dim = 8
unit_layers = 1
"""


@pytest.fixture
def recipe(tmp_path):
    def write(text=SMALL, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_recipe_is_valid_at_every_scale():
    assert {"msd_minilm_b128_ru3", "demo", "tiny12"} <= set(recipe_names())
    for name in recipe_names():
        about = load_recipe(name).recipe
        assert about.name == name
        for scale in about.scales:
            assert load_recipe(name, scale).scale == scale
        assert about.title and about.cost


def test_layers_of_values(recipe):
    text = SMALL + "[stages.teach_student]\nbatch_size = 8\n[smoke.data]\nseed = 3\n"
    ours = load_recipe(recipe(text), "smoke", {"data.seed": 4, "teacher.dim": 16})
    base = tomllib.loads((recipe_folder() / "_shared.toml").read_text(encoding="utf-8"))
    assert (
        ours.stages["teach_student"].batch_size
        == (base["smoke"]["stages"]["teach_student"]["batch_size"])
    )  # a scale stands above the recipe's common values
    assert ours.stages["teach_student"].warmup == 0.1  # base, untouched
    assert (ours.data.seed, ours.teacher.dim) == (4, 16)
    assert load_recipe(recipe(text)).data.seed == 3
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": {}}}) == {"a": {"c": 2}}
    assert merge({"a": {"b": 1}}, {"a": {}}) == {"a": {"b": 1}}


def test_the_recipe_in_a_runs_folder_has_equal_values(tmp_path):
    for name in ("msd_sizes", "msd_xlmr_ru3"):
        ours = load_recipe(name)
        RunFolder(tmp_path / name, ours).claim()
        assert load_recipe(tmp_path / name / "recipe.toml") == ours


def test_a_student_changes_only_what_it_names():
    recipe = load_recipe("msd_stages", "lab")
    students, shared = recipe.student.each(), recipe.stages["contrastive_learning"]
    assert students["student"].stage("contrastive_learning", shared) == shared
    single = students["student_single"].stage("contrastive_learning", shared)
    assert (single.steps, single.target) == (260, "none")
    assert single.learning_rate == shared.learning_rate
    assert students["student_single"].layers == "untrained"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("stages.teach_student.batchsize", 3, "Unknown key.*3.*`batch_size`"),
        ("student.variants.x.unit_layer", 1, "`unit_layers`.*Allowed here"),
        (
            "student.variants.x.stages.teach_student.step",
            3,
            "Did you mean `steps`.*Allowed here: batch_size",
        ),
        ("stage", 1, "`stages`.*teacher, tokenizer"),
        ("teacher.source", 3, "`teacher.source`.*valid string.*3"),
        ("student.start", "svdd", "'ordered' or 'ridge'.*'svdd'.*Did you mean `svd`"),
        ("student.start", "ridge", '"ridge"` is not for students of kind "rec'),
        ("student.num_layers", 2, '`num_layers` is not for students of kind "rec'),
        ("student.dropout", 1.0, "`student.dropout`.*less than 1"),
        ("stages.teach_student.warmup", 1.0, "warmup`.*less than 1"),
        (
            "stages.teach_student.losses.more",
            {"loss": "embedding_mse", "goals": "teacher", "arguments": {"dim": "sum"}},
            "`arguments` do not fit `embedding_mse`.*dim",
        ),
        ("stages.teach_student.batch_size", "16", "valid integer.*'16'"),
        ("stages.teach_student.learning_rate", 0, "greater than 0.*0"),
        ("assistant", {"source": "a", "dropout": 2}, "`assistant.dropout`.*2"),
    ],
)
def test_wrong_values_are_named(recipe, key, value, message):
    with pytest.raises(InputError, match=message):
        load_recipe(recipe(), "smoke", {key: value})


def test_a_recipe_may_extend_a_row(recipe):
    text = SMALL.replace('"_shared"', '"lealla_row3"').partition("[student]")[0]
    theirs = load_recipe("lealla_row3", "smoke").settings()
    ours = load_recipe(recipe(text), "smoke").settings()
    assert ours.pop("recipe")["name"] == "mine"
    assert {key: it for key, it in theirs.items() if key != "recipe"} == ours


def test_errors_name_the_row(monkeypatch, tmp_path):
    text = 'extends = "_shared"\n[rows.one.recipe]\ntitle = "One"\n'
    (tmp_path / "mine.toml").write_text(text + "[rows.one.stages.teach]\nsteps = 3\n")
    place = Place(tmp_path / "mine.toml", "one")
    monkeypatch.setattr(load, "find_recipe", lambda name: place)
    with pytest.raises(InputError, match=r"teach` in `.*mine.toml, \[rows.one\]`"):
        load_recipe("one")


TITLE = 'title = "Mine"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL + "[stages.teach_student]\nsize = 8\n", "size` in `.*mine.toml`"),
        (SMALL + "[demo.stages.teach_student]\nsize = 8\n", r"mine.toml, \[demo\]`"),
        (SMALL.replace(TITLE, ""), "Key `recipe.title` is missing in `.*mine"),
        (SMALL, r"is missing in `.*mine.toml`, and in `.*_sha"),
    ],
)
def test_errors_name_the_file(recipe, text, message):
    scales = TITLE + 'scales = ["smoke", "demo"]\n'
    with pytest.raises(InputError, match=message):
        load_recipe(recipe(text.replace(TITLE, scales)), "demo")


def test_errors_name_the_option(recipe):
    with pytest.raises(InputError, match="in `--set`"):
        load_recipe(recipe(), overrides={"student.x": 1})


def test_values_in_memory_have_the_layers_of_a_file(recipe):
    text = SMALL + "[smoke.data]\nseed = 3\n[demo.data]\nseed = 4\n"
    text = text.replace('title = "Mine"', 'title = "Mine"\nscales = ["smoke", "demo"]')
    text += '[tokenizer]\nvocabulary_size = 300\n[demo.assistant]\nsource = "none"\n'
    values = tomllib.loads(text)
    ours = recipe_from(values, "values")
    assert ours == load_recipe(recipe(text)) == load_recipe(ours)
    assert ours.data.seed == 3 and ours.student.bottleneck_dim == 8
    changes = {"student": {"kind": "thin_deep", "bottleneck_dim": None, "row": 8}}
    for given in (ours.settings(), values | {"extends": "lealla_small"} | changes):
        assert recipe_from(given, "values").recipe.name == "mine"


def test_errors_name_the_label_of_values(recipe):
    values = tomllib.loads(SMALL)
    with pytest.raises(InputError, match=r"Unknown key `stage` in `my \[first\] try`"):
        recipe_from(values | {"stage": {}}, "my [first] try")
    with pytest.raises(InputError, match='`my values` says `extends = "shared"`'):
        recipe_from(values | {"extends": "shared"}, "my values")
    for given in ({"scale": "smoke"}, {"overrides": {"data.seed": 4}}):
        with pytest.raises(InputError, match="Received: a `Recipe` of scale smoke"):
            load_recipe(recipe_from(values, "my values"), **given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = = 1", "not valid TOML"),
        (SMALL.replace('"_shared"', '"bse"'), "no `bse.toml`"),
        (SMALL.replace('"_shared"', '"other"'), "extend itself.*mine.*other.*mine"),
        ("[rows.one.recipe]\ntitle = 'One'\n[rows.two]\n", "must.*holds one, two"),
        ("rows = 3\n" + SMALL, "`rows` in .* must be tables.*3"),
        (
            "smoke = 3\n" + SMALL,
            "`smoke` in `.*mine.toml` must be a table. Received: 3",
        ),
    ],
)
def test_wrong_files(recipe, text, message):
    recipe(SMALL.replace('"_shared"', '"mine"'), "other.toml")
    with pytest.raises(InputError, match=message):
        load_recipe(recipe(text))


def test_names_of_no_recipe_and_no_scale(recipe, tmp_path):
    for name, message in (
        ("msd_minilm_ru33", "Did you mean `msd_minilm_ru3`"),
        ("ms", "There is no recipe `ms`. `keras-msd list`"),
        (tmp_path / "none.toml", "does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            find_recipe(name)
    with pytest.raises(InputError, match="`scale` must be one of 'smoke'"):
        load_recipe(recipe(), "paper")


def test_data_that_is_no_table_needs_no_folder(recipe):
    path = recipe(SMALL + "[smoke]\ndata = 3\n")
    assert about_recipe(path)["command"] == f"keras-msd run {path}"
    with pytest.raises(InputError, match="`data`"):
        load_recipe(path)


def test_extends_goes_over_several_levels(recipe):
    recipe(SMALL + "[smoke.data]\npairs_per_language = 70\n", "low.toml")
    middle = 'extends = "low"\n[student]\nunit_layers = 2\n[recipe]\ntitle = "M"\n'
    recipe(middle, "middle.toml")
    top = load_recipe(recipe('extends = "middle"\n[student]\nbottleneck_dim = 4\n'))
    assert top.recipe.title == "M" and top.data.pairs_per_language == 70
    assert (top.student.unit_layers, top.student.bottleneck_dim) == (2, 4)
    assert top.tokenizer.vocabulary_size == 400  # of `_shared`, three levels below


def test_set_takes_toml_values_and_bare_words():
    assert parse_override("a.b=16") == ("a.b", 16)
    assert parse_override("a=true") == ("a", True)
    assert parse_override('a=["x", "y"]') == ("a", ["x", "y"])
    assert parse_override("teacher.source=hf://a/b") == ("teacher.source", "hf://a/b")
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_override("a")


def test_an_empty_table_takes_out_what_a_recipe_has():
    assert load_recipe("tiny12", "lab").data.weights["bible"] == 0.2
    changes = dict([parse_override("data.weights={}")])
    assert not load_recipe("tiny12", "lab", changes).data.weights
    assert "b128" in load_recipe("msd_sizes", "lab").student.variants
    taken_out = dict([parse_override("student.variants={}")])
    assert load_recipe("msd_sizes", "lab", taken_out).student.variants == {}
    taken_out = dict([parse_override("stages.pretrain_assistant.losses={}")])
    stages = load_recipe("tiny12", "lab", taken_out).stages
    assert stages["pretrain_assistant"].losses == {}


def test_a_vocabulary_size_is_of_a_trained_tokenizer_alone():
    given = {"assistant.source": "folder"}
    assert load_recipe("xkd_lab", "lab").tokenizer.vocabulary_size == 24000
    assert load_recipe("xkd_lab", "lab", given).tokenizer.vocabulary_size is None
    with pytest.raises(InputError, match="needs `tokenizer.vocabulary_size`"):
        load_recipe("xkd_lab", "lab", {"tokenizer.vocabulary_size": None})


def test_a_rule_of_several_keys_says_what_to_do_and_long_values_are_cut():
    with pytest.raises(InputError, match=r"needs hidden_dim\. Change what it names\."):
        load_recipe("xkd_lab", "smoke", {"assistant.hidden_dim": None})
    for key in ("recipe.title2", "stages.teach_student.steps"):
        with pytest.raises(InputError, match="Received: 'aaa") as error:
            load_recipe("xkd_lab", "smoke", {key: "a" * 10_000})
        assert len(str(error.value)) < 2000
