"""`distil`: from your languages, your pairs and your megabytes to an encoder.

Read the modules in this order: `split` (the folder, training and held-out pairs),
`plan` (where it starts, what fits), `tokens` (which tokens stay), `recipe` (the
training, a recipe that `recipes.run` runs), `verdict` (what the scores show), `page`,
and `distil`.
"""
