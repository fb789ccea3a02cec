"""Score rows: what a recipe asks for, old and new, and what rows call it."""

import pytest
from small_recipe import sentences, write_rows
from table_encoder import Table, made_rows

from keras_msd.checks import InputError
from keras_msd.evaluate import score_set
from keras_msd.evaluate.rows import (
    asked_sets,
    check_evaluation_files,
    check_registered,
    evaluation_files,
    score_row,
    score_teacher_row,
)
from keras_msd.recipes import load_recipe


def recipe(*sets, **more):
    return {
        "recipe": {"name": "x"},
        "scale": "lab",
        "data": {"languages": ["de"]},
        "teacher": {"multilingual": False},
        "evaluate": {"sets": sets} | more,
    }


def said(asked):
    return [(one.record.name, one.languages, one.split) for one in asked]


def test_defaults_are_the_languages_of_the_pairs_or_of_the_set():
    asked = asked_sets(recipe("stsb", "tatoeba", "un", splits={"stsb": "test"}))
    assert said(asked) == [
        ("stsb", ["de"], "test"),
        ("tatoeba", ["de"], "test"),
        ("un", ["es", "fr", "ru", "zh"], "all"),
    ]


def test_all_languages_of_a_set_that_has_its_own():
    everything = recipe("un", "stsb", languages={"un": ["all"], "stsb": ["all"]})
    un, stsb = said(asked_sets(everything))
    assert un == ("un", ["es", "fr", "ru", "zh"], "all")
    assert stsb == ("stsb", None, "dev")


def test_pairs_without_english_are_scored_in_each_of_their_languages():
    asked = recipe("stsb", "tatoeba", languages={"tatoeba": ["de", "de-fr"]})
    asked["data"] = {"languages": ["it", "de-fr"]}
    assert said(asked_sets(asked)) == [
        ("stsb", ["it", "de", "fr"], "dev"),
        ("tatoeba", ["de", "de-fr"], "test"),
    ]


def test_all_languages_that_the_folder_has(data):
    for code in ("deu", "fin"):
        rows = [(text, f"{code} {text}") for text in sentences(9, 1)]
        write_rows(data / f"tatoeba/tatoeba.{code}-eng.tsv.gz", rows)
    asked = recipe("examples", "tatoeba", languages={"tatoeba": ["all"]})
    assert said(asked_sets(asked))[1] == ("tatoeba", None, "test")
    row = score_row(asked, data, Table())
    assert row["retrieval_tracks"].keys() == {"deu", "fin"}
    assert "retrieval_others" not in row
    named = recipe("examples", "tatoeba", languages={"tatoeba": ["de", "fi"]})
    assert row == score_row(named, data, Table())
    assert evaluation_files(asked, data) == evaluation_files(named, data)
    for path in (data / "tatoeba").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="every language of the Tatoeba"):
        check_evaluation_files(asked, data)


@pytest.fixture
def data(tmp_path):
    for code in ("en", "de"):
        for name, rows in (("examples", 30), ("sick", 12)):
            path = tmp_path / f"sts/{name}.dev.{code}.tsv.gz"
            write_rows(path, made_rows(code, rows))
    return tmp_path


def test_a_second_similarity_set_has_names_of_its_own(data):
    encoder = Table()
    row = score_row(recipe("examples", "sick"), data, encoder)
    made, sick = (
        score_set(encoder, name, data / "sts", ["de"]) for name in ("examples", "sick")
    )
    assert row["cross_lingual"] == made["cross_lingual"]
    assert row["sick_monolingual"] == pytest.approx(sick["monolingual"])
    assert {"en-de", "de", "sick-en-de", "sick-de"} <= row["tracks"].keys()
    assert row["tracks"]["sick-en-de"] == row["sick_cross_lingual"]


def test_unfinished_models_and_teachers_get_less(data):
    quick = score_row(recipe("examples"), data, Table(), full=False)
    full = score_row(recipe("examples"), data, Table())
    assert quick.keys() == {"cross_lingual", "tracks"}
    seen = Table()
    score_row(recipe("examples"), data, seen, full=False)
    assert not any(text.startswith("de, ") for text in seen.seen)  # no first sentence
    assert len(seen.seen) == len(set(seen.seen)) == 30 + 23 + 23
    assert full["tracks"].keys() - quick["tracks"].keys() == {"de"}
    teacher = score_teacher_row(recipe("examples"), data, Table(), None)
    assert teacher.keys() == {"monolingual", "tracks"}
    assert teacher["tracks"].keys() == {"en"}


def test_all_missing_files_are_named_at_once(data):
    asked = recipe("examples", "stbs", "tatoeba", languages={"examples": ["de", "fr"]})
    words = r"`x` at scale lab needs files.*examples\.dev\.fr\..*Did you mean `stsb`\?"
    words += r".*stbs\.dev\.en\..*tatoeba` does not exist.*change `\[evaluate\]`"
    with pytest.raises(InputError, match=words):
        check_evaluation_files(asked, data)
    check_evaluation_files(recipe("examples"), data)
    assert len(evaluation_files(recipe("examples"), data)) == 2
    with pytest.raises(InputError, match=r"`stbs` is not one.*mean `stsb`\?"):
        check_registered(asked)
    check_registered(recipe("examples", "tatoeba"))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"bucc": ["de"]}, ["Unknown key `evaluate.bucc`", "languages"]),
        (
            {"sets": ["tatoeba"], "intermediate": "cross_lingual"},
            ["a cross-lingual score", "received tatoeba"],
        ),
        ({"sets": []}, ['`intermediate = "none"`', "received none"]),
        ({"sets": "stsb"}, ["`evaluate.sets`"]),
        ({"languages.tatobea": ["deu"]}, ["Did you mean `tatoeba`?"]),
        ({"languages": 3}, ["`evaluate.languages`", "dictionary"]),
        ({"splits.examples": "tst"}, ["has the splits dev, test, train", "'tst'"]),
    ],
)
def test_mistakes_in_a_recipe(changes, parts):
    given = {f"evaluate.{key}": value for key, value in changes.items()}
    with pytest.raises(InputError) as error:
        load_recipe("demo", None, given)
    for part in parts:
        assert part in str(error.value)
    assert ".." not in str(error.value)


def test_what_is_said_of_other_sets_is_left_out():
    given = {"evaluate.languages.tatoeba": ["deu"], "evaluate.splits.un": "all"}
    ours = load_recipe("demo", None, given).evaluate
    assert ours.languages == {}
    assert ours.splits == {"examples": "dev", "held-out": "dev"}
    given["evaluate.sets"] = ["examples", "tatoeba"]
    ours = load_recipe("demo", None, given).evaluate
    assert ours.languages == {"tatoeba": ("deu",)}
    given["evaluate.languages.tatoeba"] = "all"
    assert load_recipe("demo", None, given).evaluate.languages == {"tatoeba": ("all",)}
    assert ours.splits == {"examples": "dev", "tatoeba": "test"}
