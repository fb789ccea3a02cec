"""Data of recipes: which files they find, and what is said of those that fail."""

from types import SimpleNamespace

import pytest
from small_recipe import german, sentences, write_place, write_rows

from keras_msd.checks import InputError
from keras_msd.data.corpora import LICENCES
from keras_msd.data.pair import Pairs
from keras_msd.recipes import run, train
from keras_msd.recipes.listing import describe
from keras_msd.recipes.load import load_recipe, recipe_names
from keras_msd.recipes.prepare import take_pairs, take_vectors
from keras_msd.recipes.resources import Run, corpus_of
from keras_msd.recipes.train import check_stages

# What these recipes read is chosen by licence, not by a paper.
BY_LICENCE = (
    *("assistant12", "mini12", "msd_backbone", "msd_long", "msd_stage1"),
    *("small12", "tiny12"),
)


def test_the_licence_of_each_corpus_of_a_paper_is_known():
    of_papers = [name for name in recipe_names() if not name.startswith(BY_LICENCE)]
    scales = [(name, it) for name in of_papers for it in describe(name).scales]
    recipes = [load_recipe(*scale) for scale in scales]
    named = {corpus for recipe in recipes for corpus in recipe.data.corpora}
    stages = [stage for recipe in recipes for stage in recipe.stages.values()]
    named |= {it for stage in stages for it in getattr(stage, "corpora", ())}
    assert {"ted2020", "europarl"} <= named <= LICENCES.keys()


@pytest.mark.parametrize(
    ("name", "corpus"),
    [
        ("ted2020.en-de.tsv.gz", "ted2020"),
        ("mlqe-pe.en-zh.tsv", "mlqe-pe"),
        ("Europarl.de-en.en-de", "Europarl"),  # two Moses files Europarl.de-en.*
        ("talks.v1.en-de", "talks.v1"),  # two Moses files talks.v1.*
        ("news_en-de.jsonl", "news"),
        ("memory.tmx.gz", "memory"),
        ("wmt-de.tmx", "wmt-de"),
    ],
)
def test_the_corpus_in_a_name(name, corpus):
    assert corpus_of(name) == corpus


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_place(tmp_path_factory.mktemp("data"))


def small(place, **overrides):
    return load_recipe(place / "small.toml", "smoke", overrides)


def work(recipe, *data, steps):
    """Return a run whose steps have their folders in another."""
    folder = SimpleNamespace(step=lambda name: steps / name)
    return Run(recipe, folder, data, steps)


def test_files_of_the_recipes_languages_are_found(place, tmp_path):
    folder = tmp_path / "parallel/train"
    pairs = [(text, german(text)) for text in sentences(2, 3)]
    write_rows(folder / "a.en-de.tsv.gz", pairs[:1])
    for code, text in zip(("en", "de"), pairs[1], strict=True):
        (folder / f"c.de-en.{code}").write_text(text + "\n", encoding="utf-8")
    write_rows(folder / "a.en-fr.tsv.gz", pairs)
    (folder / "README.md").write_text("not a corpus")
    work = Run(small(place), SimpleNamespace(), [tmp_path], tmp_path)
    files = work.training_pairs()
    assert [corpus_of(file.name) for file in files] == ["a", "c"]
    assert [pair[:2] for pair in Pairs(files)] == pairs
    names = [path.name for path in work.training_files()]
    assert names == ["a.en-de.tsv.gz", "c.de-en.en", "c.de-en.de"]
    with pytest.raises(InputError, match="parallel/dev` does not exist"):
        work.development_pairs()


def test_pairs_come_from_several_folders_and_from_lexicons_named(place, tmp_path):
    """Files of the same name would share draws and limits, so they are refused."""
    first, second = tmp_path / "first", tmp_path / "second"
    pairs = [(f"An English line {i}.", f"Eine Zeile {i}.") for i in range(3)]
    for folder, name in (
        (first / "parallel/train", "a.en-de.tsv.gz"),
        (second / "parallel/train", "b.en-de.tsv.gz"),
        (second / "lexicon", "words.en-de.tsv.gz"),
    ):
        write_rows(folder / name, pairs)

    def names(**overrides):
        recipe = small(place, **overrides)
        run = Run(recipe, SimpleNamespace(), [first, second], tmp_path)
        return [corpus_of(path.name) for path in run.training_files()]

    assert names() == ["a", "b"]
    assert names(**{"data.corpora": ["a", "words"]}) == ["a", "words"]
    with pytest.raises(InputError, match=r"there are a, b, words"):
        names(**{"data.corpora": ["a", "wrods"]})
    write_rows(second / "parallel/train/a.en-de.tsv.gz", pairs)
    with pytest.raises(InputError, match=r"differ in their names.*first.*second"):
        names()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"data.corpora": ["some", "othr"]},
            "`data.corpora`.*`othr`.*there are other, some.*mean `other`",
        ),
        (
            {"stages.teach_student.corpora": ["other", "Some"]},
            "`stages.teach_student.corpora`.*`Some`.*Did you mean `some`",
        ),
        (
            {"data.corpora": ["some"]},  # its third stage takes the other one
            "`stages.teach_student.corpora`.*`other`",
        ),
        ({"data.weights": {"som": 0.5}}, "`data.weights`.*`som`.*mean `some`"),
        ({"data.languages": ["de", "fr"]}, "for `fr`.*<corpus>.en-fr.tsv.gz"),
        ({"evaluate.languages.tatoeba": ["fra"]}, "tatoeba.fra-eng.tsv.gz"),
    ],
)
def test_files_that_are_absent_are_known_before_work(
    place, tmp_path, overrides, message
):
    with pytest.raises(InputError, match=message):
        run(place / "small.toml", tmp_path, None, place / "data", overrides=overrides)
    assert not (tmp_path / "stages").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"stages.teach_student.batch_size": 104},
            r"`stages.teach_student.batch_size`.*batch_size=104, 103 pairs",
        ),
        ({"stages.contrastive_learning.batch_size": 41}, "batch_size=41, 40 pairs"),
        (
            {"stages.align_embedding.warmup_steps": 2},
            "`stages.align_embedding.warmup_steps`.*warmup_steps=2, 2 steps",
        ),
        (
            {"student.stages.align_embedding.steps": 1}
            | {"stages.align_embedding.warmup_steps": 1},
            "warmup_steps=1, 1 steps",
        ),
    ],
)
def test_stages_are_checked_right_after_the_pairs(place, overrides, message):
    ours = work(small(place, **overrides), place / "data", steps=place / "steps")
    take_pairs(ours, place / "steps/pairs")
    with pytest.raises(InputError, match=message):
        check_stages(ours)


def test_a_regression_set_smaller_than_a_batch(tmp_path):
    changes = {"data.sts_train_rows": 8, "stages.regress_similarity.batch_size": 33}
    message = "regress_similarity.batch_size.*24 rows in.*examples.train.fr"
    with pytest.raises(InputError, match=message):
        run("xkd_lab", tmp_path / "run", "smoke", None, tmp_path, changes)
    done = {path.parent.name for path in tmp_path.rglob("done.json")}
    assert done == {"example_data", "pairs"}


def test_a_limited_stage_keeps_the_shares_of_the_data(place, tmp_path):
    changes = {"data.temperature": 1.0, "stages.teach_assistant.pairs_per_language": 20}
    write_rows(
        tmp_path / "parallel/train/small.en-de.tsv.gz",
        [(text, german(text)) for text in sentences(40, 1)],
    )
    big = [(text, german(text)) for text in sentences(400, 2)]
    write_rows(tmp_path / "parallel/train/big.en-de.tsv.gz", big)
    recipe = small(place, **changes)
    ours = work(recipe, tmp_path, steps=tmp_path)
    take_pairs(ours, tmp_path / "pairs")
    table = ours.texts_of(recipe.stages["teach_assistant"])
    sizes = {corpus_of(file.name): file.stop - file.start for file in table.files}
    assert sum(sizes.values()) == 20 and sizes["big"] > 3 * sizes["small"]


def test_a_teacher_embeds_only_pairs_that_stages_learn_from_it(
    place, tmp_path, monkeypatch
):
    """The targets of stages 2 and 3 are the assistant's."""
    rows = [(text, german(text)) for text in sentences(40, 1)]
    write_rows(tmp_path / "parallel/train/some.en-de.tsv.gz", rows)
    embedded = []
    store = SimpleNamespace(
        build=lambda texts, total: embedded.append((len(list(texts)), total))
    )
    monkeypatch.setattr(Run, "teacher", SimpleNamespace(fingerprint="", dim=3))
    monkeypatch.setattr(Run, "store", lambda self, guide: store)
    changes = {
        f"stages.{name}.pairs_per_language": 20
        for name in ("teach_assistant", "contrastive_learning")
    }
    recipe = small(place, **{"starts.closed_form": False, **changes})
    ours = work(recipe, tmp_path, steps=tmp_path)
    take_pairs(ours, tmp_path / "pairs")
    take_vectors(ours, tmp_path, None)
    assert embedded == [(20, 20)]


def test_a_stage_may_name_more_corpora_than_fit_a_file_name(place, tmp_path):
    names = [f"{letter}{'corpus' * 20}" for letter in "abcd"]
    for name in names:
        rows = [(text, german(text)) for text in sentences(40, ord(name[0]))]
        write_rows(tmp_path / f"parallel/train/{name}.en-de.tsv.gz", rows)
    folders = set()
    for chosen in (names[:3], names[1:], names[1:]):
        recipe = small(place, **{"stages.teach_assistant.corpora": chosen})
        ours = work(recipe, tmp_path, steps=tmp_path)
        if not folders:
            take_pairs(ours, tmp_path / "pairs")
        table = ours.texts_of(recipe.stages["teach_assistant"])
        assert [corpus_of(file.name) for file in table.files] == chosen
        folders.add(table.folder)
    assert len(folders) == 2


def test_rows_that_cannot_be_read_are_skipped_where_the_recipe_says_so(place, tmp_path):
    rows = [(text, german(text)) for text in sentences(40, 1)]
    write_rows(
        tmp_path / "parallel/train/some.en-de.tsv.gz", [*rows[:9], ("no",), *rows[9:]]
    )

    def taken(**changes):
        ours = work(small(place, **changes), tmp_path, steps=tmp_path)
        return take_pairs(ours, tmp_path / "pairs")["counts"]

    with pytest.raises(InputError, match="some.en-de.tsv.gz`, line 10: "):
        taken()
    (count,) = taken(**{"data.dirty_rows": 1})
    assert (count["read"], count["dirty"]) == (40, 1)
    assert "line 10: " in count["dirty_rows"][0]


def test_weights_of_corpora_are_those_of_their_files(place):
    class Table(list):
        files = tuple(
            SimpleNamespace(name=f"{name}.tsv.gz")
            for name in ("some.en-de", "other.en-de", "some.en-fr")
        )

    given = []
    for weights in (None, {"some": 0.5, "third": 2.0}):
        recipe = small(place, **{"data.weights": weights} if weights else {})
        run = SimpleNamespace(recipe=recipe, table=lambda settings: Table(range(99)))
        settings = recipe.stages["teach_student"]
        given.append(train.PairRows(run, "teach_student", settings).options({}))
    half = {f"some.en-{code}.tsv.gz": 0.5 for code in ("de", "fr")}
    assert [one["weights"] for one in given] == [None, half]


def test_a_published_saved_model_is_a_teacher_without_an_encoder(place, tmp_path):
    (tmp_path / "saved_model.pb").touch()
    recipe = small(place, **{"teacher.source": str(tmp_path)})
    assert Run(recipe, SimpleNamespace(), (), tmp_path).teacher_encoder is None
