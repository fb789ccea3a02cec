"""The stages of a recipe: what each is, and how it is run."""
