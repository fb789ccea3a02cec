"""Write keras_msd/data/examples.tsv.gz: sentences of Tatoeba in eight languages.

    python tools/example_sentences.py DATA

DATA is a data folder with `parallel/train/tatoeba.en-<xx>.tsv.gz`. Sentences of
`parallel/dev` and of the Tatoeba evaluation sets in `tatoeba/` are left out. The
default teacher grades the pairs. keras_msd/data/examples.md describes the file.
"""

import argparse
import gzip
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from keras_msd.data.corpora import FILE, LANGUAGES
from keras_msd.data.pair import normalize
from keras_msd.data.readers.lines import read_lines
from keras_msd.load import load_teacher

SENTENCES = {"train": 3000, "dev": 400}  # besides those with every language
GRADED = {"train": 200, "dev": 600}  # rows
COMPLETE = 40  # sentences with every language that are for training
FEWEST = 4  # languages of a sentence, besides English
WORDS = range(3, 15)
RAREST = "tr"  # taken first, so that no language has much less than the others
SAME = 6  # one graded row in so many is a sentence and its own translation
BINS = 5
NOT_LETTERS = re.compile(r"[\W_]+")
# A demo should not show these.
AVOIDED = re.compile(
    r"\b(kill\w*|die\w*|dying|dead|death|murder\w*|suicide|corpse|blood\w*|gun\w*|shot|"
    r"shoot\w*|sex\w*|naked|nude|breast\w*|rape\w*|hate\w*|stupid|idiot\w*|fool\w*|"
    r"damn|hell|ugly|fat|drunk\w*|drug\w*|war|bomb\w*|prison|jail|steal|stole\w*|"
    r"shut up|crazy|jealous|god|jesus|allah|muslim\w*|jew\w*|nazi\w*|hitler|slave\w*|"
    r"terroris\w*|women|girls|beat|kiss\w*|divorce\w*|cancer|hurt\w*|hit)\b",
    re.IGNORECASE,
)


def key(text: str) -> str:
    """Return a text without case, punctuation and spaces."""
    return NOT_LETTERS.sub("", text.casefold())


def rows(path: Path) -> list[list[str]]:
    """Return the fields of each line of a file, normalised."""
    return [list(map(normalize, line.split("\t"))) for _, line in read_lines(path)]


def translations(data: Path) -> dict[str, dict[str, str]]:
    """Return the first translation of each English sentence in each language."""
    held = {
        key(row[0])
        for folder in (data / "tatoeba", data / "parallel" / "dev")
        for path in sorted(folder.glob("*.tsv.gz"))
        for row in rows(path)
    }
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for code in LANGUAGES:
        for english, other in rows(data / f"parallel/train/tatoeba.en-{code}.tsv.gz"):
            found[english].setdefault(code, other)
    return {
        english: by_code
        for english, by_code in found.items()
        if len(english.split()) in WORDS
        and not AVOIDED.search(english)
        and key(english) not in held
    }


def chosen(found: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """Return the English sentences of each part.

    Both parts begin with sentences that have a translation in every language. The
    others are taken where they have most languages, longer ones first among equals. No
    text of the held-out part occurs in training.
    """
    every = sorted(
        english for english, by in found.items() if len(by) == len(LANGUAGES)
    )
    random = np.random.default_rng(0)
    every = [every[at] for at in random.permutation(len(every))]
    rest = [
        english
        for english, by_code in found.items()
        if FEWEST <= len(by_code) < len(LANGUAGES)
    ]
    rest.sort(key=lambda it: (-len(found[it]), RAREST not in found[it], -len(it), it))
    likely = rest[: 2 * sum(SENTENCES.values())]
    drawn = random.permutation(len(likely))[: SENTENCES["dev"]]
    dev = every[COMPLETE:] + [likely[at] for at in sorted(drawn)]

    def keys(english: str) -> set[str]:
        return {key(text) for text in (english, *found[english].values())}

    held = set[str]().union(*map(keys, dev))
    train = {key(it): it for it in (*every[:COMPLETE], *rest) if not held & keys(it)}
    both = {
        "train": list(train.values()),
        "dev": list({key(it): it for it in dev}.values()),
    }
    return {"train": both["train"][: SENTENCES["train"] + COMPLETE], "dev": both["dev"]}


def graded(vectors: np.ndarray, count: int) -> list[tuple[int, int, float]]:
    """Return rows of two sentences and a grade from 0 to 5, spread over the range.

    The grade is five times the cosine of the teacher's vectors of the two English
    sentences, at least 0. One row in `SAME` has one sentence twice, so that its row
    across languages is a translation; the others are drawn evenly from equal ranges of
    the cosine, as far as there are such pairs.
    """
    random = np.random.default_rng(0)
    cosines = np.clip(vectors @ vectors.T, 0, 1)
    first, second = np.triu_indices(len(vectors), 1)
    values = cosines[first, second]
    same = random.permutation(len(vectors))[: count // SAME]
    picked = [(int(index), int(index), 5.0) for index in same]
    left = count - len(picked)
    for number, low in enumerate(np.linspace(1, 0, BINS, endpoint=False) - 1 / BINS):
        pool = np.flatnonzero((values > low) & (values <= low + 1 / BINS))
        take = random.permutation(pool)[: left // (BINS - number)]
        left -= len(take)
        picked += [
            (int(first[at]), int(second[at]), round(5 * float(values[at]), 2))
            for at in take
        ]
    return [picked[at] for at in random.permutation(len(picked))]


def main() -> None:
    """Choose, grade, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    found = translations(parser.parse_args().data)
    parts, teacher = chosen(found), load_teacher("default")
    lines = ["\t".join(("part", "en", *LANGUAGES))]
    for part, sentences in parts.items():
        for english in sentences:
            texts = [found[english].get(code, "") for code in LANGUAGES]
            lines.append("\t".join((part, english, *texts)))
    for part, count in GRADED.items():
        complete = [it for it in parts[part] if len(found[it]) == len(LANGUAGES)]
        vectors = np.asarray(teacher.encode(complete))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for one, two, grade in graded(vectors, count):
            places = (str(parts[part].index(complete[at])) for at in (one, two))
            lines.append("\t".join((f"graded-{part}", *places, f"{grade:g}")))
    FILE.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
