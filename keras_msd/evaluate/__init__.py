"""Scores and costs of anything that turns sentences into vectors."""

from keras_msd.evaluate.bucc import bucc_folder, read_bucc
from keras_msd.evaluate.cost import cost, speed
from keras_msd.evaluate.mining import MinedPair, mine, mining
from keras_msd.evaluate.neighbours import neighbours
from keras_msd.evaluate.retrieval import (
    retrieval,
    retrieval_folder,
    retrieval_languages,
)
from keras_msd.evaluate.search import Match, search, search_many
from keras_msd.evaluate.sets import score_set
from keras_msd.evaluate.sts import (
    read_sts_folder,
    sts,
    sts_aligned,
    sts_folder,
    sts_tracks,
)
from keras_msd.evaluate.sts2017 import read_sts2017, sts2017
from keras_msd.evaluate.stsb_multilingual import (
    read_stsb_multilingual,
    stsb_multilingual,
)
from keras_msd.evaluate.tatoeba import read_tatoeba
from keras_msd.evaluate.translation import mse, translation_accuracy
from keras_msd.evaluate.un import retrieval_streamed, un_folder

__all__ = [
    "Match",
    "MinedPair",
    "bucc_folder",
    "cost",
    "mine",
    "mining",
    "mse",
    "neighbours",
    "read_bucc",
    "read_sts2017",
    "read_sts_folder",
    "read_stsb_multilingual",
    "read_tatoeba",
    "retrieval",
    "retrieval_folder",
    "retrieval_languages",
    "retrieval_streamed",
    "score_set",
    "search",
    "search_many",
    "speed",
    "sts",
    "sts2017",
    "sts_aligned",
    "sts_folder",
    "sts_tracks",
    "stsb_multilingual",
    "translation_accuracy",
    "un_folder",
]
