"""Corpora, tokenizers, stores of guide vectors, and batches; names load on use."""

from keras_msd.lazy import lazy_names

_MODULES = {
    "Cleaning": "keras_msd.data.cleaning",
    "GraphTokenizer": "keras_msd.tokenizers.graph",
    "GuideStore": "keras_msd.data.store",
    "Pair": "keras_msd.data.pair",
    "PairBatches": "keras_msd.data.batches",
    "PairFile": "keras_msd.data.pair",
    "PairTable": "keras_msd.data.pair_table",
    "Pairs": "keras_msd.data.pair",
    "READERS": "keras_msd.data.readers",
    "ScoredBatches": "keras_msd.data.scored_batches",
    "TextTable": "keras_msd.data.text_table",
    "Tokenizer": "keras_msd.tokenizers.base",
    "load_tokenizer": "keras_msd.tokenizers.base",
    "normalise": "keras_msd.data.cleaning",
    "pair_dataset": "keras_msd.data.pipeline",
    "read_pairs": "keras_msd.data.readers.discover",
    "read_scored": "keras_msd.data.scored_rows",
    "scale_gold": "keras_msd.data.scored_rows",
    "scaled_rows": "keras_msd.data.scored_rows",
    "scored_dataset": "keras_msd.data.pipeline",
    "train_unigram": "keras_msd.tokenizers.train",
}

__all__ = sorted(_MODULES)


__getattr__, __dir__ = lazy_names(__name__, _MODULES)
