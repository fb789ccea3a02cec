from keras_msd.data.made.corpus import DEMO_ANSWER as DEMO_ANSWER
from keras_msd.data.made.corpus import DEMO_QUERY as DEMO_QUERY
from keras_msd.data.made.corpus import DEMO_SENTENCES as DEMO_SENTENCES
from keras_msd.data.made.corpus import made_inference as made_inference
from keras_msd.data.made.corpus import made_pairs as made_pairs
from keras_msd.data.made.corpus import made_sts as made_sts
from keras_msd.data.made.corpus import write_made_data as write_made_data
from keras_msd.data.made.meaning import LANGUAGES as LANGUAGES
