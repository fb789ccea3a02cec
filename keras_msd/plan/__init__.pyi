from keras_msd.plan.constants import Calibration as Calibration
from keras_msd.plan.devices import DEVICES as DEVICES
from keras_msd.plan.devices import Device as Device
from keras_msd.plan.measure import calibrate as calibrate
from keras_msd.plan.recipe_plan import plan_recipe as plan_recipe
