"""Linear repairs of a finished word table: do they help tiny12?

Each is a change of the table's rows alone, so that it would cost nothing: the mean of
sentences' mean rows taken from every row; the first components of these removed;
the rows of the tokens around a sentence made zero; rows weighted down by the frequency
of their piece (a / (a + p), Arora et al. 2017). Means, components and frequencies come
from training texts, scores are of the halves that settings come from (STSb dev,
Tatoeba). ENCODER is `stages/pretrain_assistant/encoder` of a run of `tiny12`, a table
without weights.

    python benchmarks/tiny12_repairs.py ENCODER --data DATA
"""

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from tiny12_scores import LANGUAGES, PART, scorer

from keras_msd import load_encoder
from keras_msd.data import read_pairs
from keras_msd.files import write_json
from keras_msd.starts import closed_form_encoder, table_of

RESULT = Path(__file__).parent / "results" / "tiny12_repairs.json"
CORPUS, LINES = "ms-courses", 2000  # of each language
COMPONENTS = 1, 2, 3, 5, 10
FREQUENCIES = 0.1, 0.03, 0.02, 0.01, 0.003


def repaired(
    table: np.ndarray, rows: list[list[int]], share: np.ndarray, around: list[int]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a name and a table for each repair.

    Args:
        table: `(rows, dim)`.
        rows: Token ids of sentences.
        share: Of the tokens that a row has.
        around: The tokens that stand around every sentence.
    """
    yield "as it is", table
    means = mean_rows(table, rows)
    center = means.mean(axis=0)
    yield "the mean taken off", table - center
    _, _, directions = np.linalg.svd(means - center, full_matrices=False)
    for count in COMPONENTS:
        top = directions[:count]
        yield f"without {count} components", table - table @ top.T @ top
        less = table - center
        yield f"the mean, and {count} components", less - less @ top.T @ top
    zeroed = table.copy()
    zeroed[around] = 0
    yield "no tokens around a sentence", zeroed
    for a in FREQUENCIES:
        weighted = table * (a / (a + share))[:, None]
        yield f"rows by frequency, a = {a:g}", weighted
        less = weighted - mean_rows(weighted, rows).mean(axis=0)
        yield f"rows by frequency, a = {a:g}, the mean", less
        zeroed = weighted.copy()
        zeroed[around] = table[around]
        yield f"rows by frequency, a = {a:g}, but those around", zeroed


def mean_rows(table: np.ndarray, rows: list[list[int]]) -> np.ndarray:
    """Return the mean row of each sentence, `(n, dim)`."""
    return np.stack([table[row].mean(axis=0) for row in rows])


def main() -> None:
    """Score each repair, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    encoder = load_encoder(given.encoder)
    tokenizer, table = encoder.tokenizer, table_of(encoder)
    names = [f"{CORPUS}.en-{code}.tsv.gz" for code in LANGUAGES]
    files = [given.data / "parallel" / "train" / name for name in names]
    pairs = [pair for path in files for pair in islice(read_pairs(path), LINES)]
    texts = [text for pair in pairs for text in pair[:2]]
    rows = tokenizer.encode(texts)
    plain = tokenizer.encode_plain(texts[:1])
    around = sorted({*rows[0]}.difference(*plain))
    counts = np.bincount(np.concatenate(rows), minlength=len(table))
    share = counts / counts.sum()
    scores = scorer(given.data)
    found = {}
    for name, rows_of in repaired(table, rows, share, around):
        changed = closed_form_encoder(
            tokenizer, rows_of.astype(np.float32), max_length=encoder.config.max_length
        )
        found[name] = scores(changed)
        print(f"{name:34}", found[name], flush=True)
    write_json(
        given.out, {"encoder": encoder.fingerprint, "part": PART, "scores": found}
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
