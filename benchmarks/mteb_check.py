"""mteb's scores beside our evaluators', on tasks made of DATA: STSb dev and Tatoeba.

mteb asks for torch: run it in an environment of its own, with the extra `mteb`.

    python benchmarks/mteb_check.py tiny12 --data DATA --json

Writes results/mteb.json. Exit code 1: two scores differ by more than 0.01.
"""

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from keras_msd import load_encoder
from keras_msd.evaluate import MTEBEncoder, retrieval, sts
from keras_msd.evaluate.similarity import read_sts
from keras_msd.evaluate.translations import read_tatoeba
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "mteb.json"


def tasks_of(data: Path, language: str, code: str) -> dict[str, tuple[Any, Any]]:
    """Return mteb's task and our own score of each set, by name."""
    import datasets
    from mteb.abstasks import AbsTaskBitextMining, AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    rows = read_sts(data / "sts" / f"stsb.dev.{language}.tsv.gz")
    pairs = read_tatoeba(data / "tatoeba", [code])[code]
    columns = {
        "sentence1": [row[1] for row in rows],
        "sentence2": [row[2] for row in rows],
        "score": [float(row[0]) for row in rows],
    }
    both = {"sentence1": [one for one, _ in pairs], "sentence2": [b for _, b in pairs]}

    def made(base: Any, kind: str, score: str, table: dict[str, Any], **more: Any):
        metadata = TaskMetadata.model_construct(
            name=f"{kind}Own", description=kind, type=kind, category="t2t",
            modalities=["text"], dataset={"path": "own", "revision": "1"},
            eval_splits=["test"], eval_langs=["eng-Latn"], main_score=score,
            prompt=None,
        )  # fmt: skip
        split = datasets.DatasetDict(test=datasets.Dataset.from_dict(table))

        def load_data(self: Any, *args: Any, **kwargs: Any) -> None:
            self.dataset, self.data_loaded = split, True

        parts = {"metadata": metadata, "load_data": load_data, **more}
        return type(f"{kind}Own", (base,), parts)()

    return {
        "stsb": (
            made(
                AbsTaskSTS, "STS", "cosine_spearman", columns, min_score=0, max_score=5
            ),
            lambda encoder: sts(encoder, rows)["spearman"],
        ),
        "tatoeba": (
            made(AbsTaskBitextMining, "BitextMining", "accuracy", both),
            lambda encoder: retrieval(encoder, pairs)["source_to_target"],
        ),
    }


def main() -> None:
    """Score both ways and print the scores."""
    import mteb

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", default=["de:deu", "ja:jpn"])
    parser.add_argument("--json", action="store_true", help=f"write {RESULT.name}, too")
    given = parser.parse_args()
    encoder = load_encoder(given.encoder)
    scores: dict[str, dict[str, float]] = {}
    for codes in given.languages:
        language, code = codes.split(":")
        for name, (task, ours) in tasks_of(given.data, language, code).items():
            result = mteb.evaluate(MTEBEncoder(encoder), [task], cache=None)
            theirs = 100 * result.task_results[0].get_score()
            both = {"mteb": round(theirs, 4), "ours": ours(encoder)}
            scores[f"{name} {language}"] = both
    found = {"encoder": given.encoder, "mteb": version("mteb"), "scores": scores}
    if given.json:
        write_json(RESULT, found)
    print(json.dumps(found, sort_keys=True))
    if not all(abs(it["mteb"] - it["ours"]) <= 0.01 for it in scores.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
