"""Scores and costs of anything that turns sentences into vectors."""

from keras_msd.evaluate.cost import cost, speed
from keras_msd.evaluate.neighbours import neighbours
from keras_msd.evaluate.retrieval import (
    retrieval,
    retrieval_folder,
    retrieval_languages,
)
from keras_msd.evaluate.search import Match, search, search_many
from keras_msd.evaluate.sts import read_sts_folder, sts, sts_aligned, sts_folder

__all__ = [
    "Match",
    "cost",
    "neighbours",
    "read_sts_folder",
    "retrieval",
    "retrieval_folder",
    "retrieval_languages",
    "search",
    "search_many",
    "speed",
    "sts",
    "sts_aligned",
    "sts_folder",
]
