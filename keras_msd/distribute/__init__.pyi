from keras_msd.distribute.strategy import Distribution as Distribution
from keras_msd.distribute.strategy import distribution as distribution
