"""A parallel corpus that the project makes itself, with graded similarity."""

from keras_msd.data.made.demo import DEMO_ANSWER, DEMO_QUERY, DEMO_SENTENCES
from keras_msd.data.made.lexicon import LANGUAGES
from keras_msd.data.made.pairs import made_pairs
from keras_msd.data.made.sts import made_sts
from keras_msd.data.made.write import write_made_data

__all__ = [
    "DEMO_ANSWER",
    "DEMO_QUERY",
    "DEMO_SENTENCES",
    "LANGUAGES",
    "made_pairs",
    "made_sts",
    "write_made_data",
]
