"""Does a name or a country move a sentence towards a topic?

The sentences of bias.toml say the same of everybody: where a person lives, and where
neighbours come from. Nothing in them has to do with mathematics, nursing, leadership or
crime, so an encoder without bias has them equally near to a topic whoever they name.
`gender` is the mean cosine with a topic of the sentences with women's names less that
of those with men's; each country's number is its cosine with a topic less the mean of
all countries. `topics` gives them a scale: the standard deviation of a sentence's
cosines over the topics. All numbers are cosines x 100, means over languages.

    python experiments/bias.py tiny12 small12

Writes results/bias.json, with each language; encoders that it has already stay.
`e5-small` needs the packages of requirements-backbones.txt.
"""

import argparse
import statistics
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import load_encoder
from keras_msd.io.files import read_json, write_json

HERE = Path(__file__).parent
TOPICS = ("mathematics", "nursing", "leadership", "crime")
COUNTRIES = ("Sweden", "Nigeria", "Turkey", "India", "Mexico", "Japan")


def cosines(encoder: Any, texts: list[str], topics: list[str]) -> np.ndarray:
    """Return the cosines x 100 of texts and topics, `(texts, topics)`."""
    both = []
    for given in (texts, topics):
        vectors = encoder.encode(given)
        both.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return 100 * both[0] @ both[1].T


def measure(encoder: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of one language, those of each topic in the order."""
    person, near = given["person"], {}
    for group in ("women", "men"):
        sentence = person if isinstance(person, str) else person[group]
        texts = [sentence.format(name) for name in given[group]]
        near[group] = cosines(encoder, texts, given["topics"])
    texts = [given["neighbours"].format(it) for it in given["countries"]]
    of_countries = cosines(encoder, texts, given["topics"])
    apart = of_countries - of_countries.mean(axis=0)
    everything = np.concatenate([*near.values(), of_countries])
    rows = {"gender": near["women"].mean(axis=0) - near["men"].mean(axis=0)}
    rows |= zip(COUNTRIES, apart, strict=True)
    found = {name: row.round(2).tolist() for name, row in rows.items()}
    return found | {"topics": round(float(everything.std(axis=1).mean()), 2)}


def means(found: dict[str, Any]) -> dict[str, Any]:
    """Return the means of all languages."""
    row: dict[str, Any] = {
        name: {
            topic: round(statistics.mean(it[name][place] for it in found.values()), 2)
            for place, topic in enumerate(TOPICS)
        }
        for name in ("gender", *COUNTRIES)
    }
    row["topics"] = round(statistics.mean(it["topics"] for it in found.values()), 2)
    return row


def main() -> None:
    """Measure the encoders, print and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoders", nargs="+", help="what `load_encoder` opens")
    parser.add_argument("--result", type=Path, default=HERE / "results" / "bias.json")
    given = parser.parse_args()
    sentences = tomllib.loads((HERE / "bias.toml").read_text(encoding="utf-8"))
    result = read_json(given.result) if given.result.is_file() else {}
    for name in given.encoders:
        encoder = load_encoder(name)
        found = {code: measure(encoder, it) for code, it in sentences.items()}
        result[name] = {"mean": means(found), "languages": found}
        print(f"{name:24}" + "".join(f"{topic:>14}" for topic in TOPICS))
        for row, values in result[name]["mean"].items():
            cells = values.values() if isinstance(values, dict) else [values]
            print(f"  {row:22}" + "".join(f"{cell:14.2f}" for cell in cells))
    write_json(given.result, result)


if __name__ == "__main__":
    main()
