from keras_msd.beam.pipeline import clean_texts as clean_texts
from keras_msd.beam.pipeline import write_store as write_store
from keras_msd.beam.pipeline import write_table as write_table
