from keras_msd.evaluate import (
    callbacks as callbacks,
)
from keras_msd.evaluate.bitext import MinedPair as MinedPair
from keras_msd.evaluate.bitext import best_f1 as best_f1
from keras_msd.evaluate.bitext import mine as mine
from keras_msd.evaluate.bitext import mine_paraphrases as mine_paraphrases
from keras_msd.evaluate.costs import cost as cost
from keras_msd.evaluate.costs import speed as speed
from keras_msd.evaluate.mteb_adapter import MTEBEncoder as MTEBEncoder
from keras_msd.evaluate.nearest import Match as Match
from keras_msd.evaluate.nearest import neighbours as neighbours
from keras_msd.evaluate.nearest import search as search
from keras_msd.evaluate.set_files import SetFile as SetFile
from keras_msd.evaluate.sets import SETS as SETS
from keras_msd.evaluate.sets import EvaluationSet as EvaluationSet
from keras_msd.evaluate.sets import score_set as score_set
from keras_msd.evaluate.similarity import read_sts_folder as read_sts_folder
from keras_msd.evaluate.similarity import sts as sts
from keras_msd.evaluate.similarity import sts_aligned as sts_aligned
from keras_msd.evaluate.similarity import sts_tracks as sts_tracks
from keras_msd.evaluate.threshold import calibrate_threshold as calibrate_threshold
from keras_msd.evaluate.translations import read_tatoeba as read_tatoeba
from keras_msd.evaluate.translations import retrieval as retrieval
from keras_msd.evaluate.translations import retrieval_languages as retrieval_languages
from keras_msd.evaluate.translations import translation_accuracy as translation_accuracy
from keras_msd.evaluate.vectors import mse as mse
