import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import best_f1, mine
from keras_msd.evaluate.bitext import find_bucc, score_bucc
from keras_msd.evaluate.set_files import read_parts


class Drawn:
    """A vector drawn from the last word of a sentence, a little off for its language.

    So a sentence and its translation are near, and unrelated ones are not.
    """

    def encode(self, texts):
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        language, number = text.split()
        near = np.random.default_rng(int(number)).normal(size=6)
        far = np.random.default_rng([int(number), *language.encode()]).normal(size=6)
        return near + 0.45 * far


def write(folder, split, code="de", pairs=range(20), alone=15, shift=0):
    """Write a split: `pairs` have a translation, the other sentences have none."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{code}-en.{split}"
    numbers = [shift + number for number in pairs]
    others = {code: 1000, "en": 2000}
    for language, start in others.items():
        mine_ = numbers + [start + shift + number for number in range(alone)]
        order = np.random.default_rng(len(language)).permutation(mine_)
        rows = [f"{language}-{number}\t{language} {number}\n" for number in order]
        stem.with_name(f"{stem.name}.{language}").write_text("".join(rows))
    gold = [f"{code}-{number}\ten-{number}\n" for number in numbers]
    stem.with_name(f"{stem.name}.gold").write_text("".join(gold))


def mined(part, *options, **more):
    pairs = mine(Drawn(), part.sources, part.targets, *options, **more)
    return best_f1(pairs, part.gold)


def read_bucc(folder, language, split="train"):
    [splits] = read_parts(find_bucc(folder, [language], split)).values()
    return splits[split]


def score(folder, languages, split="train", **options):
    parts = read_parts(find_bucc(folder, languages, split))
    return score_bucc(Drawn(), parts, **options)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "de-en", "training")
    write(tmp_path / "de-en", "test", shift=100)
    write(tmp_path / "de-en", "sample", alone=2, pairs=range(3))
    write(tmp_path / "fr-en", "training", "fr", pairs=range(12))
    return tmp_path


def test_rows_follow_names(folder):
    part = read_bucc(folder, "de", "sample")
    assert len(part.sources) == len(part.targets) == 5
    named = {(part.sources[i], part.targets[j]) for i, j in part.gold}
    assert named == {(f"de {number}", f"en {number}") for number in range(3)}


@pytest.mark.parametrize("margin", ["ratio", "distance"])
def test_best_f1_of_the_split_itself(folder, margin):
    found = score(folder, ["de", "fr"], margin=margin, k=3)
    single = {}
    for code in ("de", "fr"):
        part = read_bucc(folder, code)
        single[code] = mined(part, margin, k=3)
        assert 30 < single[code]["f1"] < 100
        assert found["tracks"][f"{code}-en"] == single[code]["f1"]
        assert found["thresholds"][f"{code}-en"] == single[code]["threshold"]
    for key in ("f1", "precision", "recall"):
        mean = (single["de"][key] + single["fr"][key]) / 2
        assert found[key] == pytest.approx(mean, abs=1e-4)
    assert found["gold"] == 32
    assert found["pairs"] == single["de"]["pairs"] + single["fr"]["pairs"]
    assert (found["margin"], found["k"], found["primary"]) == (margin, 3, "f1")


def test_threshold_of_another_split(folder):
    found = score(folder, ["de"], split="test")
    train, test = read_bucc(folder, "de"), read_bucc(folder, "de", "test")
    threshold = mined(train)["threshold"]
    assert found["thresholds"] == {"de-en": threshold}
    kept = mine(Drawn(), test.sources, test.targets, threshold=threshold)
    right = len({pair[1:] for pair in kept} & set(test.gold))
    assert found["pairs"] == len(kept)
    assert found["f1"] == pytest.approx(200 * right / (len(kept) + 20), abs=1e-4)
    assert found["f1"] < mined(test)["f1"], "tuning elsewhere has its price"


def test_places_of_the_files(folder):
    assert read_bucc(folder / "de-en", "de") == read_bucc(folder, "de")
    (folder / "data" / "bucc2018").mkdir(parents=True)
    (folder / "de-en").rename(folder / "data" / "bucc2018" / "de-en")
    assert len(read_bucc(folder / "data", "de").gold) == 20


def test_two_languages_without_english(tmp_path):
    sentences = {"de": "de-1\tde 1\n", "fr": "fr-1\tfr 1\n", "gold": "de-1\tfr-1\n"}
    for ending, text in sentences.items():
        (tmp_path / f"de-fr.training.{ending}").write_text(text)
    assert score(tmp_path, ["de-fr"], k=1)["tracks"] == {"de-fr": 100.0}
    with pytest.raises(
        InputError, match="de-it.training.it.*pairs without English are not"
    ):
        read_bucc(tmp_path, "de-it")


def test_errors_say_what_is_missing(folder):
    with pytest.raises(InputError, match="lacks it-en.training.it, .*Unpack"):
        read_bucc(folder, "it")
    (folder / "de-en" / "de-en.training.gold").unlink()
    words = r"lacks de-en.training.gold of BUCC 2018. Unpack bucc2018-de-en.training-g"
    with pytest.raises(InputError, match=words):
        score(folder, ["fr", "de"])
    with pytest.raises(InputError, match="Gold pairs of `test`"):
        score(folder, ["fr"], split="test")
    with pytest.raises(InputError, match="`split` must be one of.*`train`"):
        score(folder, ["fr"], split="training")
    with pytest.raises(InputError, match="`languages` must be at least 1"):
        score(folder, [])
    with pytest.raises(InputError, match="does not exist"):
        read_bucc(folder / "none", "de")


@pytest.mark.parametrize(
    ("ending", "text", "words"),
    [
        ("de", "de-1\ta\tb\n", "de-en.training.de`, line 1: .* 2 tab.* Received: 3"),
        ("en", "en-1\ta\nen-1\tb\n", "line 2: .* id must be unique.*'en-1' again"),
        ("gold", "de-1\ten-1\nde-1\ten-x\n", "line 2: .*training.en`.*'en-x'"),
        ("gold", "\n", "line 1: a line must have 2"),
    ],
)
def test_broken_files(folder, ending, text, words):
    (folder / "de-en" / f"de-en.training.{ending}").write_text(text)
    with pytest.raises(InputError, match=words):
        read_bucc(folder, "de")
