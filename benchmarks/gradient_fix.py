"""Scores with the optimizer step before and after repeated words' gradients are summed.

Two trainings from a closed form, with the settings of the lab recipes: its word table
alone by contrastive learning (as stage 4 of `msd_lab`), and a body of two layers above
it by imitation (stage 1). The guide is tiny12. "Old" leaves the rows of the table's
gradient as they were.

python benchmarks/gradient_fix.py --data DATA --clip-norm 1
python benchmarks/gradient_fix.py --data DATA
"""

import argparse
import itertools
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

import keras_msd as msd
from keras_msd.distribute import _tensorflow as replicas
from keras_msd.evaluate.similarity import read_sts

LANGUAGES = ("de", "fr", "es")
PAIRS_PER_LANGUAGE, PIECES = 8_000, 8_000
CASES: dict[str, dict[str, Any]] = {
    "table": {"batch_size": 256, "updates": 200, "rate": 1e-3, "num_layers": 0},
    "body": {"batch_size": 64, "updates": 150, "rate": 2e-4, "num_layers": 2},
}


def stage_of(case: str, encoder: Any) -> Any:
    """Return the stage of a case."""
    if case == "table":
        softmax = {"target": "softmax", "temperature": 0.1, "kd_weight": 0.0}
        return msd.stages.ContrastiveLearning(encoder, **softmax)
    return msd.stages.TeachAssistant(encoder, dims="sum")


def main() -> None:
    """Print a row for each training."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--clip-norm", type=float, help="by default no clipping")
    given = parser.parse_args()
    guide, pairs = msd.load_encoder("tiny12"), []
    for language in LANGUAGES:
        files = sorted((given.data / "parallel/train").glob(f"*.en-{language}.tsv.gz"))
        found = itertools.chain.from_iterable(map(msd.data.read_pairs, files))
        pairs += itertools.islice(found, PAIRS_PER_LANGUAGE)
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    tokenizer = msd.data.train_unigram(texts, vocabulary_size=PIECES)
    store = msd.data.GuideStore(guide, tempfile.mkdtemp())
    goals = store.targets([pair.source for pair in pairs]).repeat(2, axis=0)
    tokens = tokenizer.encode_plain(texts)
    word = msd.starts.fit_ridge(tokens, goals, tokenizer.vocabulary_size)
    sets = {
        language: read_sts(given.data / f"sts/stsb.dev.{language}.tsv.gz")
        for language in ("en", *LANGUAGES)
    }

    def scores(encoder: Any) -> str:
        found = msd.evaluate.sts_aligned(encoder, sets, part="report")
        return f"{found['cross_lingual']:.2f} {found['monolingual']:.2f}"

    for case in given.cases:
        options = CASES[case]
        for seed, side in itertools.product(given.seeds, ("old", "new")):
            keras.utils.set_random_seed(seed)
            heads = {"num_heads": 12, "intermediate_dim": 1536, "dropout": 0.0}
            encoder = msd.starts.closed_form_encoder(
                tokenizer,
                word,
                num_layers=options["num_layers"],
                max_length=64,
                **heads,
            )
            if (side, seed) == ("old", given.seeds[0]):
                print(f"{case}, closed form: {scores(encoder)}", flush=True)
            batches = msd.data.pair_dataset(
                pairs,
                encoder,
                {"teacher": (store, "source")},
                batch_size=options["batch_size"],
                epochs=1 + options["updates"] * options["batch_size"] // len(pairs),
                seed=seed,
            )
            stage = stage_of(case, encoder)
            optimizer = msd.training.make_optimizer(
                options["rate"], steps=options["updates"], clip_norm=given.clip_norm
            )
            stage.compile(optimizer)
            keep = mock.patch.object(replicas, "summed", lambda gradients: gradients)
            with keep if side == "old" else nullcontext():
                history = stage.fit(
                    batches,
                    steps_per_epoch=options["updates"],
                    verbose=0,
                    shuffle=False,
                ).history
            print(
                f"{case}, seed {seed}, {side} step: {scores(encoder)}, "
                f"loss {history['loss'][-1]:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
