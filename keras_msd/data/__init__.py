"""Corpora, tokenizers, stores of guide vectors, and batches; names load on use."""

from importlib import import_module
from typing import Any

_MODULES = {
    "Cleaning": "cleaning",
    "GraphTokenizer": "graph_tokenizer",
    "GuideStore": "store",
    "Pair": "pair",
    "PairBatches": "batches",
    "PairFile": "pair",
    "PairTable": "pair_table",
    "Pairs": "pair",
    "READERS": "readers",
    "ScoredBatches": "scored_batches",
    "TextTable": "text_table",
    "Tokenizer": "tokenizer",
    "load_tokenizer": "tokenizer",
    "normalise": "cleaning",
    "pair_dataset": "pipeline",
    "read_pairs": "readers.discover",
    "read_scored": "scored_rows",
    "scale_gold": "scored_rows",
    "scaled_rows": "scored_rows",
    "scored_dataset": "pipeline",
    "train_unigram": "train_tokenizer",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
