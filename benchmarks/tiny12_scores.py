"""Scores on the halves that tiny12's settings come from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_msd.evaluate import retrieval_folder, sts_aligned
from keras_msd.evaluate.similarity import read_sts

LANGUAGES = ["ar", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "tr", "zh"]
STS = ["de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh"]
PART = "choose"


def scorer(data: Path) -> Callable[[Any], dict[str, float]]:
    """Return what gives an encoder's scores by name: STSb dev, Tatoeba."""
    sets = {code: read_sts(data / "sts" / f"stsb.dev.{code}.tsv.gz") for code in STS}

    def scores(encoder: Any) -> dict[str, float]:
        sts = sts_aligned(encoder, sets, part=PART)
        tatoeba = retrieval_folder(encoder, data / "tatoeba", LANGUAGES, PART)
        found = {
            "cross_lingual": sts["cross_lingual"],
            "monolingual": sts["monolingual"],
            "english": sts["tracks"]["en"],
            "retrieval": tatoeba[tatoeba["primary"]],
        }
        return {name: round(score, 2) for name, score in found.items()}

    return scores
