"""Recipes with pairs without English: asked for by name, for multilingual teachers."""

import pytest
from small_recipe import german, sentences, write_place, write_rows
from test_recipes_thin_deep import QUICK

from keras_msd.checks import InputError
from keras_msd.data import TextTable
from keras_msd.evaluate.similarity import read_sts
from keras_msd.io.files import read_json
from keras_msd.recipes import load_recipe, run
from keras_msd.recipes.cache import RunFolder
from keras_msd.recipes.outputs import held_out
from keras_msd.recipes.resources import Run, corpus_of

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")

NAME = "lealla_small_ams_fd"
CHANGES = QUICK | {
    "data.kind": "folder",
    "data.languages": ["de", "de-fr"],
    "teacher.multilingual": True,
    "tokenizer.vocabulary_size": 50,
    "evaluate.sets": ["examples", "tatoeba"],
    "evaluate.languages.tatoeba": ["de", "de-fr"],
}


def french(text):
    return german(text)[::-1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = write_place(tmp_path_factory.mktemp("without_english"))
    data = place / "data"
    for seed, name in enumerate(("train/talks", "dev/talks"), 20):
        rows = [(german(text), french(text)) for text in sentences(120, seed)]
        write_rows(data / f"parallel/{name}.de-fr.tsv.gz", rows)
    english = data / "sts/examples.dev.en.tsv.gz"
    golds = [gold for gold, _, _ in read_sts(english)]
    pairs = zip(golds, sentences(30, 5), sentences(30, 6), strict=True)
    rows = [(f"{gold:g}", french(a), french(b)) for gold, a, b in pairs]
    write_rows(data / "sts/examples.dev.fr.tsv.gz", rows)
    rows = [(german(text), french(text)) for text in sentences(20, 7)]
    write_rows(data / "tatoeba/tatoeba.deu-fra.tsv.gz", rows)
    return place


def start(place, out, **changes):
    changes = CHANGES | changes
    return run(NAME, place / out, "smoke", place / "data", place / "store", changes)


def test_a_run_on_them(place):
    done = start(place, "run")
    counts = read_json(place / "run/stages/pairs/done.json")["result"]["counts"]
    read = {corpus_of(one["name"]): one["source_language"] for one in counts}
    assert read == {"other": "en", "some": "en", "talks": "de"}
    files = TextTable.open(place / "run/stages/pairs/texts").files
    (file,) = [one for one in files if one.source_language == "de"]
    assert file.stop - file.start == QUICK["data.pairs_per_language"]
    row = done["rows"][-1]
    assert row["tracks"].keys() == {"en", "de", "fr", "en-de", "en-fr"}
    assert row["retrieval_tracks"].keys() == {"deu", "deu-fra"}
    report = (place / "run/report.html").read_text(encoding="utf-8")
    assert "&quot;de-fr&quot;" in report


def test_only_what_is_asked_for_is_read(place):
    def files(language):
        recipe = load_recipe(NAME, "smoke", CHANGES | {"data.languages": [language]})
        work = Run(recipe, RunFolder(place / "none", recipe), [place / "data"], place)
        return work.training_pairs()

    names = [file.name for file in files("de")]
    assert names == ["other.en-de.tsv.gz", "some.en-de.tsv.gz"]
    with pytest.raises(InputError, match="for `fr-de`.*<corpus>.fr-de.tsv.gz"):
        files("fr-de")


def test_held_out_sentences_of_each_pair(place):
    recipe = load_recipe(NAME, "smoke", CHANGES)
    work = Run(recipe, RunFolder(place / "none", recipe), [place / "data"], place)
    texts, queries = held_out(work)
    assert [language for _, language in queries] == ["de", "fr"]
    assert {sentences(1, 2)[0], german(sentences(1, 21)[0])} <= {*texts}


def test_a_teacher_that_reads_english_alone_refuses_them(place):
    words = "`hashed-words` reads en. Received: pairs `de-fr` in `talks.de-fr.tsv.gz`"
    with pytest.raises(InputError, match=f"{words}.*teacher.multilingual.*leave"):
        start(place, "refused", **{"teacher.multilingual": False})
    assert not (place / "refused").exists()
