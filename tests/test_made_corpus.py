import gzip
import hashlib
import re
import unicodedata
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from keras_msd.checks import InputError
from keras_msd.data.made import (
    DEMO_ANSWER,
    DEMO_QUERY,
    DEMO_SENTENCES,
    LANGUAGES,
    made_inference,
    made_pairs,
    made_sts,
    write_made_data,
)
from keras_msd.data.made.draw import Draw, inferences
from keras_msd.data.made.grammar import render
from keras_msd.data.made.meaning import (
    ALL_LANGUAGES,
    Event,
    Meaning,
    similarity,
    table,
)

WORD_LISTS = "subjects adjectives verbs objects places times weather".split()
WORD = re.compile(r"[^\W\d_]+")


def words(text):
    return {word.lower() for word in WORD.findall(text)}


def named(name, key):
    return next(entry for entry in table(name) if entry.id == key)


@pytest.fixture(scope="module")
def train():
    return made_pairs(28_000, seed=0)


@pytest.fixture(scope="module")
def dev():
    return made_pairs(3_500, seed=0, split="dev")


@pytest.fixture(scope="module")
def rows():
    return made_sts(300)


@pytest.fixture(scope="module")
def known(train):
    """Every word of training, by language, out of sentences and of the word lists."""
    found = {language: set() for language in ALL_LANGUAGES}
    for pair in train:
        found["en"] |= words(pair.source)
        found[pair.language] |= words(pair.target)
    for entry in (
        entry for name in (*WORD_LISTS, "templates") for entry in table(name)
    ):
        if not entry.held_out:
            for language, cell in entry.cells.items():
                found[language] |= words(cell.replace("_", " "))
    return found


def test_pairs_are_deterministic_aligned_and_prefix_stable(train):
    assert made_pairs(700, seed=0) == train[:700]
    assert made_pairs(700, seed=1) != train[:700]
    only_german = [pair for pair in train if pair.language == "de"]
    assert made_pairs(500, ["de"]) == only_german[:500]
    for start in range(0, 700, len(LANGUAGES)):
        block = train[start : start + len(LANGUAGES)]
        assert [pair.language for pair in block] == list(LANGUAGES)
        assert len({pair.source for pair in block}) == 1


def test_there_are_many_distinct_english_sentences():
    pairs = made_pairs(15_000, ["nl"])
    assert len({pair.source for pair in pairs}) == 15_000
    lengths = [len(pair.source.split()) for pair in pairs]
    assert 4 <= min(lengths) and max(lengths) <= 20
    assert sum(5 <= n <= 14 for n in lengths) > 0.97 * len(lengths)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_sentences_are_well_formed(split, train, dev):
    for pair in train if split == "train" else dev:
        for text in (pair.source, pair.target):
            assert not re.search(r"[{}\[\]/_~+|]|  |\s,|^\s|\s$", text), text
            assert text == unicodedata.normalize("NFC", text)
            assert text[-1] in ".?!؟", text
        first = next(c for c in pair.target if c.isalpha())
        arabic = unicodedata.name(first).startswith("ARABIC")
        assert arabic == (pair.language == "ar"), pair
        assert first.isupper() != arabic, pair
        assert pair.source[0].isupper()
        names = {unicodedata.name(c).split()[0] for c in pair.target if c.isalpha()}
        assert names == {"ARABIC" if arabic else "LATIN"}, pair


def test_every_dev_sentence_has_a_word_absent_from_training(dev, known):
    for pair in dev:
        assert words(pair.source) - known["en"], pair
        assert words(pair.target) - known[pair.language], pair


def test_held_out_words_begin_no_training_word(known):
    # A held-out word without its last letters, so that no other inflection passes.
    for entry in (entry for name in WORD_LISTS for entry in table(name)):
        if not entry.held_out:
            continue
        for language, cell in entry.cells.items():
            new = words(cell.replace("_", " ")) - known[language]
            stems = {word.removeprefix("ال") for word in new if len(word) > 2}
            stems = {s[: len(s) - (len(s) > 5) - (len(s) > 7)] for s in stems}
            absent = [
                stem
                for stem in stems
                if not any(w.startswith((stem, f"ال{stem}")) for w in known[language])
            ]
            assert absent, (entry.id, language)


def test_splits_share_no_template_and_the_other_words_are_known():
    train = list(islice(Draw(0, held_out=False).meanings(), 4000))
    dev = list(islice(Draw(0, held_out=True).meanings(), 1000))
    seen = {entry.id for meaning in train for entry in meaning.entries()}
    assert not {m.template.id for m in train} & {m.template.id for m in dev}
    for meaning in train:
        assert not any(entry.held_out for entry in meaning.entries())
    for meaning in dev:
        new = [entry for entry in meaning.entries() if entry.held_out]
        assert new
        assert all(e.id in seen for e in meaning.entries() if not e.held_out)
    patterns = {"train": set(), "test": set()}
    for template in table("templates"):
        patterns[template.facts["split"]].add(template.cells["en"])
    assert not patterns["train"] & patterns["test"]
    assert {m.template.id for m in dev} == {
        t.id for t in table("templates") if t.held_out
    }


def test_the_documentation_lists_exactly_what_is_held_out():
    text = (Path(__file__).parents[1] / "docs/made_corpus.md").read_text("utf-8")
    listed = re.findall(
        r"^\*\*\w[^*]*\*\* \(\d+ of \d+\): (.+?)\.\n\n", text, re.M | re.S
    )
    names = ("subjects", "adjectives", "verbs", "objects", "places", "templates")
    for name, found in zip(names, listed, strict=True):
        english = [e.cells["en"] for e in table(name) if e.held_out]
        if name == "verbs":
            english = [forms.split()[1] for forms in english]
        assert " ".join(found.replace("`", "").split()) == ", ".join(english)
    others = [e for name in ("times", "weather") for e in table(name)]
    assert not any(entry.held_out for entry in others)


def test_similarity_by_hand_and_falling_with_every_changed_part():
    look, see, why = (named("templates", key) for key in ("look", "see", "why"))
    event = Event(
        named("subjects", "pilot"),
        named("verbs", "eat"),
        object=named("objects", "banana"),
        place=named("places", "park"),
    )
    base = Meaning(look, event, "n")
    assert similarity(base, base) == similarity(base, replace(base, template=see)) == 5
    assert similarity(base, replace(base, template=why)) == 4.6
    related = replace(event, object=named("objects", "apple"))
    other = replace(event, object=named("objects", "soup"))
    assert similarity(base, replace(base, event=related)) == 3.6
    assert similarity(base, replace(base, event=other)) == 2.4
    assert similarity(replace(base, event=other), base) == 2.4
    steps = [event, other]
    steps.append(replace(steps[-1], place=named("places", "kitchen")))
    steps.append(replace(steps[-1], subject=named("subjects", "mother")))
    scores = [similarity(base, replace(base, event=step)) for step in steps]
    assert scores == [5.0, 2.4, 1.0, 1.0]  # the same topic, a meal, is the floor
    asleep = replace(steps[-1], verb=named("verbs", "sleep"), object=None)
    assert similarity(base, replace(base, event=asleep)) == 0.0
    film, movie = named("objects", "film"), named("objects", "film.2")
    seen = replace(base, event=replace(event, object=film))
    assert similarity(seen, replace(base, event=replace(event, object=movie))) == 5.0


def test_sts_rows_are_aligned_graded_and_held_out(rows, known):
    assert list(rows) == ["en", *LANGUAGES]
    assert made_sts(300)["de"] == rows["de"]
    golds = [gold for gold, _, _ in rows["en"]]
    assert len(golds) == 300
    bands = [sum(low <= gold <= low + 0.999 for gold in golds) for low in range(5)]
    assert min(bands) >= 30
    for language, own in rows.items():
        assert [gold for gold, _, _ in own] == golds
        for _, first, second in own:
            assert words(first) - known[language], first
            assert words(second) - known[language], second
    assert all(first != second for _, first, second in rows["en"])
    overlap = {"same": [], "other": []}
    for gold, first, second in rows["de"]:
        one, two = words(first), words(second)
        share = len(one & two) / len(one | two)
        overlap["same" if gold >= 3.4 else "other"].append(share)
    assert min(len(o) for o in overlap.values()) > 90
    mean = {key: sum(shares) / len(shares) for key, shares in overlap.items()}
    assert mean["same"] > mean["other"] + 0.2


def test_inference_follows_from_what_is_said():
    draw, seen = Draw(5, held_out=False), 0
    for meaning in islice(Draw(4, held_out=False).meanings(), 400):
        pairs = inferences(meaning, draw)
        seen += bool(pairs)
        for label, (premise, hypothesis) in enumerate(pairs):
            assert premise.template is hypothesis.template is meaning.template
            said, other = ({k: e.concept for k, e in it.event.parts().items() if e}
                           for it in (premise, hypothesis))  # fmt: skip
            if label == 0:  # less
                assert other.items() < said.items()
            elif label == 1:  # more
                assert said.items() < other.items()
            else:
                (part,) = (part for part in said if said[part] != other.get(part))
                assert part in ("subject", "object") and said.keys() == other.keys()
            entries = (*premise.entries(), *hypothesis.entries())
            assert not any(entry.held_out for entry in entries)
    assert 60 < seen < 400


def test_inference_rows_are_aligned():
    rows = made_inference(31, ["de", "tr"])
    assert list(rows) == ["en", "de", "tr"]
    for own in rows.values():
        assert [label for label, *_ in own] == [row % 3 for row in range(31)]
        assert all(premise != hypothesis for _, premise, hypothesis in own)
    assert made_inference(31, ["tr"])["tr"] == rows["tr"]
    assert made_inference(31, ["tr"], seed=1)["tr"] != rows["tr"]
    for start in range(0, 30, 3):  # less and more of the same scene
        (_, full, bare), (_, *swapped), (_, again, _) = rows["en"][start : start + 3]
        assert [bare, full] == swapped and again == full


# Written by hand, not by the program.
EXPECTED = {
    "en": "I know that the engineer did not buy a banana.",
    "ar": "أعلم أن المهندسة لم تشتر موزة.",
    "de": "Ich weiß, dass die Ingenieurin keine Banane gekauft hat.",
    "es": "Sé que la ingeniera no compró una banana.",
    "fr": "Je sais que l'ingénieure n'a pas acheté de banane.",
    "it": "So che l'ingegnera non ha comprato una banana.",
    "nl": "Ik weet dat de ingenieur geen banaan heeft gekocht.",
    "tr": "Biliyorum, mühendis muz satın almadı.",
}
SEPARABLE = {
    "de": "Ich weiß, dass die nervöse Ingenieurin im Hotel den Doktor einlädt.",
    "nl": "Ik weet dat de nerveuze ingenieur in het hotel de dokter uitnodigt.",
    "fr": "Je sais que l'ingénieure nerveuse invite le docteur à l'hôtel.",
    "ar": "أعلم أن المهندسة العصبية تدعو الطبيب في الفندق.",
    "tr": "Biliyorum, gergin mühendis otelde doktoru davet ediyor.",
}


@pytest.mark.parametrize("language", EXPECTED)
def test_negated_past_by_hand(language):
    event = Event(
        named("subjects", "engineer"),
        named("verbs", "buy"),
        object=named("objects", "banana"),
        negated=True,
    )
    meaning = Meaning(named("templates", "know"), event, "p")
    assert render(meaning, language) == EXPECTED[language]


@pytest.mark.parametrize("language", SEPARABLE)
def test_word_order_and_agreement_by_hand(language):
    event = Event(
        named("subjects", "engineer"),
        named("verbs", "invite"),
        named("adjectives", "nervous"),
        named("objects", "the_doctor"),
        named("places", "hotel"),
    )
    meaning = Meaning(named("templates", "know"), event, "n")
    assert render(meaning, language) == SEPARABLE[language]


def test_written_folder_has_the_layout_and_stable_bytes(tmp_path):
    sizes = {"languages": ["de", "ar"], "pairs": 20, "dev_pairs": 10, "sts_rows": 12}
    one = write_made_data(tmp_path / "one", **sizes)
    two = write_made_data(tmp_path / "two", **sizes)
    files = sorted(p.relative_to(one).as_posix() for p in one.rglob("*") if p.is_file())
    assert files == [
        "parallel/dev/made.en-ar.tsv.gz",
        "parallel/dev/made.en-de.tsv.gz",
        "parallel/train/made.en-ar.tsv.gz",
        "parallel/train/made.en-de.tsv.gz",
        "sts/made.dev.ar.tsv.gz",
        "sts/made.dev.de.tsv.gz",
        "sts/made.dev.en.tsv.gz",
    ]
    assert all((one / f).read_bytes() == (two / f).read_bytes() for f in files)
    text = gzip.decompress((one / files[3]).read_bytes()).decode()
    pairs = [tuple(line.split("\t")) for line in text.splitlines()]
    assert pairs == [pair[:2] for pair in made_pairs(20, ["de"])]
    sizes |= {"sts_train_rows": 3, "nli_rows": 4}
    more = write_made_data(tmp_path / "more", **sizes)
    text = gzip.decompress((more / "nli/made.train.de.tsv.gz").read_bytes()).decode()
    head, *lines = text.splitlines()
    (_, premise, hypothesis), *_ = made_inference(4, ["de"])["de"]
    assert head == "premise\thypothesis\tlabel" and len(lines) == 4
    assert lines[0] == f"{premise}\t{hypothesis}\tentailment"
    assert lines[2].endswith("\tcontradiction")
    score, first, second = (
        gzip.decompress((one / files[6]).read_bytes()).decode().split("\n")[0]
    ).split("\t")
    assert (float(score), first, second) == made_sts(12, ["de"])["en"][0]


def test_demo_sentences_are_distinct_and_new(train, known):
    assert len(DEMO_SENTENCES) == len(set(DEMO_SENTENCES)) == 40
    assert DEMO_SENTENCES.count(DEMO_ANSWER) == 1
    assert words(DEMO_ANSWER) - known["en"] == {"guitar", "park"}
    assert words(DEMO_QUERY) - known["de"] == {"gitarre", "park"}
    assert not set(DEMO_SENTENCES) & {pair.source for pair in train}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"languages": ["de", "pt"]}, "languages='pt'"),
        ({"languages": []}, "at least one of"),
        ({"count": 0}, "count=0"),
        ({"count": 200_001, "languages": ["de", "fr"]}, "count=200001"),
        ({"split": "test"}, "split='test'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        made_pairs(**arguments)


def test_the_texts_stay_as_they_are(tmp_path):
    """Scores in reports and docs were measured on exactly these sentences."""
    write_made_data(tmp_path, pairs=20, dev_pairs=10, sts_rows=6, seed=3)
    state = hashlib.sha256()
    for path in sorted(tmp_path.rglob("*.gz")):
        name = path.relative_to(tmp_path).as_posix()
        state.update(name.encode() + gzip.decompress(path.read_bytes()))
    assert state.hexdigest().startswith("f4becc305958e9297ec2d78a26cdd27ad021c0ea")
