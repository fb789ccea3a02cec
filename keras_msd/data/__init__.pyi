from keras_msd.data.batches import PairBatches as PairBatches
from keras_msd.data.cleaning import Cleaning as Cleaning
from keras_msd.data.cleaning import normalize as normalize
from keras_msd.data.examples import example_pairs as example_pairs
from keras_msd.data.examples import example_similarity as example_similarity
from keras_msd.data.examples import write_examples as write_examples
from keras_msd.data.pair import Pair as Pair
from keras_msd.data.pair import PairFile as PairFile
from keras_msd.data.pair import Pairs as Pairs
from keras_msd.data.pair_table import PairTable as PairTable
from keras_msd.data.pipeline import (
    tensorflow_dataset as tensorflow_dataset,
)
from keras_msd.data.readers.discover import READERS as READERS
from keras_msd.data.readers.discover import Reader as Reader
from keras_msd.data.readers.discover import read_pairs as read_pairs
from keras_msd.data.readers.inference import read_inference as read_inference
from keras_msd.data.scored import (
    InferenceBatches as InferenceBatches,
)
from keras_msd.data.scored import (
    ScoredBatches as ScoredBatches,
)
from keras_msd.data.scored import (
    read_scored as read_scored,
)
from keras_msd.data.scored import (
    scale_gold as scale_gold,
)
from keras_msd.data.scored import (
    scaled_rows as scaled_rows,
)
from keras_msd.data.store import GuideStore as GuideStore
from keras_msd.data.store import ShardedStore as ShardedStore
from keras_msd.data.text_table import TextTable as TextTable
from keras_msd.data.write import write_corpus as write_corpus
from keras_msd.remote import fetch_folder as fetch_folder
from keras_msd.tokenizers.base import Tokenizer as Tokenizer
from keras_msd.tokenizers.graph import GraphTokenizer as GraphTokenizer
from keras_msd.tokenizers.loading import load_tokenizer as load_tokenizer
from keras_msd.tokenizers.sentencepiece import train_unigram as train_unigram
