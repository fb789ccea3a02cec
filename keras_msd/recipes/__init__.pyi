from keras_msd.recipes.listing import list_recipes as list_recipes
from keras_msd.recipes.load import load_recipe as load_recipe
from keras_msd.recipes.load import recipe_from as recipe_from
from keras_msd.recipes.runner import run as run
from keras_msd.recipes.several import run_all as run_all
