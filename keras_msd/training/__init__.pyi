from keras_msd.training.callbacks import CollapseMonitor as CollapseMonitor
from keras_msd.training.optimizer import WarmUp as WarmUp
from keras_msd.training.optimizer import make_optimizer as make_optimizer
from keras_msd.training.profile import profile_updates as profile_updates
from keras_msd.training.resume import fit as fit
