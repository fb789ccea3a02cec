"""`distil`: from your languages, your pairs and your megabytes to an encoder.

Read the modules in this order: `split` (the folder, training and held-out pairs),
`start` (what it begins from), `plan` (what fits), `distil` (the training, a recipe that
`recipes.run` runs) and `report` (what the scores show).
"""
