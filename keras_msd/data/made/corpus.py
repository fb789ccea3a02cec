"""The made corpus: parallel sentences, graded similarity, and both as a data folder."""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from keras_msd.checks import InputError, at_least, one_of
from keras_msd.data.made.draw import Draw, change, inferences
from keras_msd.data.made.grammar import render
from keras_msd.data.made.meaning import LANGUAGES, Meaning, lines_of, similarity
from keras_msd.data.pair import Pair
from keras_msd.data.readers.inference import CLASSES
from keras_msd.files import atomic_path

SPLITS = ("train", "dev")
MOST = 100_000  # sentences; the grammar has many more, yet repeats get frequent
DEV_PAIRS = 500
STS_ROWS = 600
# Each level in turn, so that the scale is covered evenly: (lowest, highest) gold.
LEVELS = ((4.5, 5.0), (3.4, 4.4), (2.2, 3.3), (1.1, 2.1), (1.0, 1.0), (0.0, 0.0))
TRIES = 500
# What the demo searches: English sentences, asked for in German.
DEMO_QUERY = "Das Mädchen spielt im Park Gitarre."
DEMO_ANSWER = "The girl is playing the guitar in the park."
DEMO_SENTENCES = tuple(lines_of("demo"))

Row = tuple[float, str, str]


def made_pairs(
    count: int = 40_000,
    languages: Sequence[str] = LANGUAGES,
    seed: int = 0,
    split: str = "train",
) -> list[Pair]:
    """Make translated sentence pairs.

    The English lines are distinct, are the same for any choice of languages, and line i
    is translated into every language before line i + 1 follows; a smaller `count` gives
    the beginning of a larger one.

    Args:
        count: Pairs in total, spread evenly over the languages.
        languages: Codes out of `LANGUAGES`.
        seed: The same seed gives the same pairs.
        split: `train`, or `dev`, whose sentences have templates that training never
            has, and at least one held-out word each.

    Returns:
        `count` pairs.

    Raises:
        InputError: A language or a split is unknown, or `count` is not positive or
            needs more than 100,000 English sentences.

    Example:
        >>> from keras_msd.data.made import made_pairs
        >>> for pair in made_pairs(2, ["de", "fr"], seed=1):
        ...     print(pair.target)
        Vor dem Mittagessen ist der Bäcker zum Bahnhof gegangen.
        Avant le déjeuner, le boulanger est allé à la gare.
    """
    languages = _check_languages(languages)
    at_least(1, count=count)
    one_of(SPLITS, split=split)
    lines = -(-count // len(languages))
    if lines > MOST:
        raise InputError(
            f"`count` must be at most {MOST * len(languages)} for {len(languages)} "
            f"languages: {MOST} sentences each. Received: count={count}."
        )
    pairs: list[Pair] = []
    for meaning, english in _distinct(seed, held_out=split == "dev"):
        for language in languages:
            pairs.append(Pair(english, render(meaning, language), language))
            if len(pairs) == count:
                return pairs
    return pairs


def made_sts(
    count: int = 1000, languages: Sequence[str] = LANGUAGES, seed: int = 0
) -> dict[str, list[Row]]:
    """Make similarity rows of held-out sentences, aligned over languages.

    Args:
        count: Rows for each language.
        languages: Codes out of `LANGUAGES`; English is always made.
        seed: The same seed gives the same rows.

    Returns:
        Language code to rows `(gold, sentence 1, sentence 2)`, gold from 0 to 5. Row i
        has the same gold and the same two meanings in every language.

    Raises:
        InputError: A language is unknown, or `count` is not positive.

    Example:
        >>> from keras_msd.data.made import made_sts
        >>> made_sts(2, ["de"], seed=1)["en"][1]
        (3.6, 'The man has to travel to Berlin.', 'The man has to travel to Paris.')
    """
    at_least(1, count=count)
    codes = ["en", *_check_languages(languages)]
    rows: dict[str, list[Row]] = {code: [] for code in codes}
    draw = Draw(seed + 1, held_out=True)
    for first, _ in _distinct(seed, held_out=True):
        place = len(rows["en"])
        if place == count:
            break
        second = _partner(first, LEVELS[place % len(LEVELS)], draw)
        if second is None:
            continue
        gold = similarity(first, second)
        for code in codes:
            rows[code].append((gold, render(first, code), render(second, code)))
    return rows


def made_inference(
    count: int = 900, languages: Sequence[str] = LANGUAGES, seed: int = 0
) -> dict[str, list[tuple[int, str, str]]]:
    """Make rows of natural language inference, aligned over languages.

    Nothing held out is in them. A premise entails what says less, without its adjective
    and place; the other way round it is neutral; another object (or subject)
    contradicts, as in SNLI, where both sentences are of one scene.

    Args:
        count: Rows for each language.
        languages: Codes out of `LANGUAGES`; English is always made.
        seed: The same seed gives the same rows.

    Returns:
        Language code to rows `(label, premise, hypothesis)`, labels by turns 0
        (entailment), 1 (neutral) and 2 (contradiction). Row i has the same label and
        the same two meanings in every language.

    Raises:
        InputError: A language is unknown, or `count` is not positive.

    Example:
        >>> from keras_msd.data.made import made_inference
        >>> [label for label, *_ in made_inference(4, ["de"])["en"]]
        [0, 1, 2, 0]
    """
    at_least(1, count=count)
    codes = ["en", *_check_languages(languages)]
    draw = Draw(seed + 3, held_out=False)
    meanings = (meaning for meaning, _ in _distinct(seed + 2, held_out=False))
    drawn = (enumerate(inferences(meaning, draw)) for meaning in meanings)
    pairs = list(islice(chain.from_iterable(drawn), count))
    return {
        code: [(label, render(a, code), render(b, code)) for label, (a, b) in pairs]
        for code in codes
    }


def _partner(first: Meaning, level: tuple[float, float], draw: Draw) -> Meaning | None:
    """Return another held-out meaning at `level`, None if no try was at it."""
    lowest, highest = level
    others = draw.meanings()
    for _ in range(TRIES):
        second = next(others) if highest <= 1.0 else change(first, draw)
        if second.held_out and lowest <= similarity(first, second) <= highest:
            if render(first, "en") != render(second, "en"):
                return second
    return None


def write_made_data(
    folder: str | Path,
    languages: Sequence[str] = LANGUAGES,
    pairs: int = 5000,
    dev_pairs: int = DEV_PAIRS,
    sts_rows: int = STS_ROWS,
    seed: int = 0,
    sts_train_rows: int = 0,
    nli_rows: int = 0,
) -> Path:
    """Write the corpus in the layout of a folder of real data.

    `parallel/{train,dev}/made.en-<xx>.tsv.gz` (English TAB other language) and
    `sts/made.{dev,train}.<xx>.tsv.gz` (score TAB sentence 1 TAB sentence 2), English
    among the latter, and `nli/made.train.<xx>.tsv.gz` (premise, hypothesis, label under
    these names). The same arguments give the same bytes. Each file appears complete.

    Args:
        folder: Made if it is not there.
        languages: Codes out of `LANGUAGES`.
        pairs: Training pairs for each language.
        dev_pairs: Held-out pairs for each language.
        sts_rows: Rows of each similarity file.
        seed: As in `made_pairs`.
        sts_train_rows: Rows of each similarity file to train on; none by default.
        nli_rows: Rows of each inference file; none by default.

    Returns:
        The folder.

    Raises:
        InputError: A language is unknown, or a number is not positive.

    Example:
        >>> from keras_msd.data.made import write_made_data
        >>> folder = write_made_data("data", ["de"], pairs=20, dev_pairs=5, sts_rows=5)
        >>> len(msd.data.read_pairs(folder / "parallel" / "train").files)
        1
    """
    folder, codes = Path(folder), _check_languages(languages)
    at_least(1, pairs=pairs, dev_pairs=dev_pairs, sts_rows=sts_rows)
    for split, number in zip(SPLITS, (pairs, dev_pairs), strict=True):
        translated = made_pairs(number * len(codes), codes, seed, split)
        for code in codes:
            rows = (pair[:2] for pair in translated if pair.language == code)
            _write(folder / "parallel" / split / f"made.en-{code}.tsv.gz", rows)
    for code, scored in made_sts(sts_rows + sts_train_rows, codes, seed).items():
        lines = [(f"{gold:g}", first, second) for gold, first, second in scored]
        _write(folder / "sts" / f"made.dev.{code}.tsv.gz", lines[:sts_rows])
        if sts_train_rows:
            _write(folder / "sts" / f"made.train.{code}.tsv.gz", lines[sts_rows:])
    inferred = made_inference(nli_rows, codes, seed) if nli_rows else {}
    for code, labelled in inferred.items():
        named = [(first, second, CLASSES[label]) for label, first, second in labelled]
        table = [("premise", "hypothesis", "label"), *named]
        _write(folder / "nli" / f"made.train.{code}.tsv.gz", table)
    return folder


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in rows)
    # No time and no name in the header: the same rows give the same bytes.
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(text.encode(), mtime=0))


def _distinct(seed: int, held_out: bool) -> Iterator[tuple[Meaning, str]]:
    """Yield meanings with their English sentence, each sentence once."""
    seen: set[str] = set()
    for meaning in Draw(seed, held_out).meanings():
        english = render(meaning, "en")
        if english not in seen:
            seen.add(english)
            yield meaning, english


def _check_languages(languages: Sequence[str]) -> list[str]:
    """Return the codes once each, in the given order; raise if one is unknown."""
    codes = list(dict.fromkeys(languages))
    if not codes:
        raise InputError(
            f"`languages` must name at least one of {', '.join(LANGUAGES)}. "
            "Received: none."
        )
    for language in codes:
        one_of(LANGUAGES, languages=language)
    return codes
