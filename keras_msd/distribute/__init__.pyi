from keras_msd.distribute.devices import Distribution as Distribution
from keras_msd.distribute.devices import distribution as distribution
