from keras_msd.data.corpora.catalogue import Corpus as Corpus
from keras_msd.data.corpora.catalogue import corpora as corpora
from keras_msd.data.corpora.catalogue import corpus as corpus
from keras_msd.data.corpora.get import get_corpus as get_corpus
