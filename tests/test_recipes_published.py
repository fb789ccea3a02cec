"""Published scores stand once, in a file for each paper; recipes name table and row."""

import tomllib
from itertools import combinations

import pytest

from keras_msd.checks import InputError
from keras_msd.recipes.files import recipe_folder, recipe_names, recipe_places
from keras_msd.recipes.loading import describe, read_paper, tables_named

FILES = sorted((recipe_folder() / "published").glob("*.toml"))
PAPER = """
paper = "Somebody 2024"
columns = ["monolingual", "en_de"]
[[tables]]
table = "1; 3"
[tables.rows]
"ours" = [80.5, 70.25]
[[tables]]
table = "figure 2"
columns = []
[tables.rows]
"a curve" = []
"""
RECIPE = """
[recipe]
name = "mine"
title = "Mine"
citation = "some2024"
table = "1; 3"
row = "ours"
"""


@pytest.fixture
def place(tmp_path):
    def write(recipe=RECIPE, paper=PAPER):
        (tmp_path / "published").mkdir(exist_ok=True)
        path = tmp_path / "published" / "some2024.toml"
        path.write_text(paper, encoding="utf-8")
        read_paper.cache_clear()
        (tmp_path / "mine.toml").write_text(recipe, encoding="utf-8")
        return tmp_path / "mine.toml"

    return write


def test_recipes_repeat_no_number():
    for path, row in recipe_places().values():
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        about = (values["rows"][row] if row else values)["recipe"]
        assert "expected" not in about
        assert all("expected" not in row for row in about.get("rows", {}).values())


def test_every_printed_row_is_of_some_recipe():
    named = {path.stem: set() for path in FILES}
    for name in recipe_names():
        about = describe(name)
        for row in about.rows.values() if about.rows else [about]:
            for table in tables_named(row.table):
                printed = getattr(row, "printed_as", None) or row.row
                named.setdefault(about.citation, set()).add((table, printed))
    assert len(FILES) == 2
    for path in FILES:
        paper = read_paper(path)
        rows = {(table, row) for table, of in paper.scores.items() for row in of}
        assert len(rows) > 40
        assert named[path.stem] - {(table, "none") for table, _ in rows} == rows


def test_a_row_stands_once_in_a_table():
    for path in FILES:
        blocks = tomllib.loads(path.read_text(encoding="utf-8"))["tables"]
        for one, two in combinations(blocks, 2):
            if set(tables_named(one["table"])) & set(tables_named(two["table"])):
                assert not one["rows"].keys() & two["rows"].keys()


def test_scores_are_looked_up(place):
    about = describe(place())
    assert (about.paper, about.expected) == (
        "Somebody 2024",
        {"monolingual": 80.5, "en_de": 70.25},
    )
    rows = """
[recipe.rows.student]
table = "3"
row = "ours, at lab size"
printed_as = "ours"
columns = ["en_de"]
[recipe.rows.other]
table = "3"
row = "of our own"
printed_as = "none"
[recipe.rows.curve]
table = "figure 2"
row = "a curve"
"""
    about = describe(place(RECIPE.replace('"ours"', '"all"') + rows))
    assert about.expected == {}  # rows say what the models are
    scores = {model: row.expected for model, row in about.rows.items()}
    assert scores == {"student": {"en_de": 70.25}, "other": {}, "curve": {}}


def test_a_recipe_may_say_its_scores_itself(place):
    own = RECIPE + "expected = { cross_lingual = 1.5 }\n"
    assert describe(place(own)).expected == {"cross_lingual": 1.5}
    paper = own.replace('"some2024"', '"some2024"\npaper = "Another"')
    about = describe(place(paper))
    assert (about.paper, about.citation) == ("Another", "")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('"some2024"', '"none2024"', ["mine.toml", "published/none2024.toml", "paper"]),
        ('"1; 3"', '"1; 4"', ["some2024.toml", "`ours`", "table `4`"]),
        ('"ours"', '"our"', ["some2024.toml", "mine.toml", "`our` of table `1`",
                             "Did you mean `ours`?", '`printed_as = "none"`']),
    ],
)  # fmt: skip
def test_what_the_file_lacks_is_named(place, old, new, parts):
    with pytest.raises(InputError) as error:
        describe(place(RECIPE.replace(old, new)))
    assert all(part in str(error.value) for part in parts), error.value


def test_a_column_that_is_not_printed(place):
    row = '[recipe.rows.student]\ntable = "1"\nrow = "ours"\ncolumns = ["en_tr"]\n'
    with pytest.raises(InputError, match="no `en_tr`.*Columns there: monolingual, en_"):
        describe(place(RECIPE + row))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[80.5, 70.25]", "[80.5]", "a number for each of its 2 columns; received 1"),
        ("70.25]", '"high"]', "valid number.*'high'"),
        ("[[tables]]", "[[tables", "not valid TOML"),
        ('paper = "Somebody 2024"', "", "Key `paper` is missing"),
    ],
)
def test_a_broken_file_is_named(place, old, new, message):
    recipe = place(paper=PAPER.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as error:
        describe(recipe)
    assert "some2024.toml" in str(error.value)
