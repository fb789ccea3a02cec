from keras_msd.tokenizers.base import Tokenizer as Tokenizer
from keras_msd.tokenizers.graph import GraphTokenizer as GraphTokenizer
from keras_msd.tokenizers.loading import (
    TOKENIZERS as TOKENIZERS,
)
from keras_msd.tokenizers.loading import (
    load_tokenizer as load_tokenizer,
)
from keras_msd.tokenizers.loading import (
    read_checkpoint_tokenizer as read_checkpoint_tokenizer,
)
from keras_msd.tokenizers.sentencepiece import (
    SentencePieceTokenizer as SentencePieceTokenizer,
)
from keras_msd.tokenizers.sentencepiece import extend_unigram as extend_unigram
from keras_msd.tokenizers.sentencepiece import train_unigram as train_unigram
from keras_msd.tokenizers.tokenizer_json import (
    BackendTokenizer as BackendTokenizer,
)
from keras_msd.tokenizers.tokenizer_json import (
    WordPieceTokenizer as WordPieceTokenizer,
)
