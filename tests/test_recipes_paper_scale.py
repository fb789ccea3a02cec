"""A recipe at paper scale, on a folder that `write_corpus` filled."""

import random

import numpy as np
import pytest
from scipy.stats import spearmanr

from keras_msd.checks import InputError
from keras_msd.data import write_corpus
from keras_msd.evaluate.similarity import read_sts
from keras_msd.load import load_encoder
from keras_msd.recipes import run
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")

LANGUAGES = ["ar", "de", "es", "fr", "it", "nl", "tr"]
CODES = ["ara", "deu", "spa", "fra", "ita", "nld", "tur"]
TRACKS = (
    *("ar-ar", "es-es", "en-en", "en-ar", "en-de", "en-tr"),
    *("es-en", "fr-en", "it-en", "nl-en"),
)
NAME = "msd_xlmr_xkd"


WORDS = ["tea", "Haus", "naïve", "river", "of", "Oslo", "blue", "42", "cat", "rain"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write every corpus of the recipe; save an assistant."""
    folder = tmp_path_factory.mktemp("paper")
    draw, data = random.Random(3), folder / "data"
    texts = [" ".join(draw.choices(WORDS, k=6)) + f" {i}." for i in range(300)]
    for language in LANGUAGES:
        pairs = [(text, f"{language} {text}") for text in texts]
        names = ["ted2020", "wikimatrix", "europarl", "news-commentary"]
        for name in names if language == "de" else names[:1]:
            write_corpus(pairs, data, name, language)
    for track in TRACKS:
        rows = [
            (5 * draw.random(), draw.choice(texts), draw.choice(texts))
            for _ in range(250)
        ]
        write_corpus(rows, data, "sts2017", track, "sts")
    for code in (*CODES, "ell", "hin"):
        pairs = [(text, f"x {text}") for text in texts[:5]]
        write_corpus(pairs, data, "tatoeba", code, "tatoeba")
    tiny_encoder().save(folder / "assistant")
    return folder


def start(place, out, **more):
    changes = {
        "teacher.source": "hashed-words",
        "teacher.dim": 16,
        "assistant.source": str(place / "assistant"),
        "data.pairs_per_language": 20,
        "data.max_length": 16,
        "stages.teach_assistant.steps": 2,
        "stages.teach_assistant.batch_size": 8,
        "stages.teach_assistant.scored": 1,
        "evaluate.artefacts": False,
    }
    store = place / "store"
    return run(NAME, out, "paper", place / "data", store, changes | more)


@pytest.fixture(scope="module")
def done(place):
    return start(place, place / "run")


def test_every_column_of_the_paper_is_measured(place, done):
    row = done["rows"][-1]
    across = [row["tracks"][f"en-{code}"] for code in LANGUAGES]
    assert row["cross_lingual"] == pytest.approx(np.mean(across), abs=1e-3)
    within = [row["tracks"][code] for code in ("ar", "es", "en")]
    assert row["monolingual"] == pytest.approx(np.mean(within), abs=1e-3)
    assert len(row["tracks"]) == 10


def test_a_track_is_the_correlation_with_its_scores(place, done):
    rows = read_sts(place / "data/sts/sts2017.test.fr-en.tsv.gz")
    encoder = load_encoder(place / "run/assistant")
    one, two = (encoder.encode([row[side] for row in rows]) for side in (1, 2))
    cosine = (one * two).sum(1) / np.linalg.norm(one, axis=1)
    cosine /= np.linalg.norm(two, axis=1)
    wanted = 100 * spearmanr(cosine, [row[0] for row in rows]).statistic
    assert done["rows"][-1]["tracks"]["en-fr"] == pytest.approx(wanted, abs=1e-2)


def test_teacher_unfinished_rows_and_curve(place, done):
    teacher, before, last = done["rows"]
    assert teacher["tracks"].keys() == {"en"}
    assert teacher["monolingual"] == teacher["tracks"]["en"]
    assert "retrieval" in before and "retrieval_others" not in before
    history = place / "run/stages/teach_assistant/history.json"
    assert f"{last['cross_lingual']}" in history.read_text()
    assert len(last["retrieval_tracks"]) == 7
    assert last["retrieval_others_tracks"].keys() == {"ell", "hin"}


def test_files_that_lack_are_named_before_work(place, tmp_path):
    with pytest.raises(InputError, match="has the languages .*Received: pt"):
        start(
            place,
            tmp_path / "run",
            **{"evaluate.languages.sts2017-extended": ["de", "pt"]},
        )
    with pytest.raises(InputError, match="`sts2017-extended` has the splits test"):
        start(place, tmp_path / "run", **{"evaluate.splits.sts2017-extended": "dev"})
    track = place / "data/sts/sts2017.test.it-en.tsv.gz"
    whole = track.read_bytes()
    track.unlink()
    try:
        with pytest.raises(InputError, match="lacks en-it of STS 2017"):
            start(place, tmp_path / "run")
    finally:
        track.write_bytes(whole)
    assert not (tmp_path / "run/stages").exists()
