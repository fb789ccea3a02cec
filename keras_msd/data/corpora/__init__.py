"""Public corpora: fetched from their homes, verified, turned into our TSV files."""

from keras_msd.data.corpora.catalogue import Corpus, corpora, corpus
from keras_msd.data.corpora.get import get_corpus

__all__ = ["Corpus", "corpora", "corpus", "get_corpus"]
