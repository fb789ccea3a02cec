from keras_msd.recipes.loading import list_recipes as list_recipes
from keras_msd.recipes.loading import load_recipe as load_recipe
from keras_msd.recipes.runner import run as run
from keras_msd.recipes.runner import run_all as run_all
