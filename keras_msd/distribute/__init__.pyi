from keras_msd.distribute.strategy import Distribution as Distribution
from keras_msd.distribute.strategy import distribution as distribution
from keras_msd.distribute.workers import Workers as Workers
