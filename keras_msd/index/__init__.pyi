from keras_msd.index.chunks import Piece as Piece
from keras_msd.index.chunks import read_passages as read_passages
from keras_msd.index.chunks import split as split
from keras_msd.index.index import Found as Found
from keras_msd.index.index import Index as Index
from keras_msd.index.index import build_index as build_index
