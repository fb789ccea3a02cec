"""How well-known settings are said, in this order; `{}` is the value.

A value that is false or empty is not said, so that its phrase says what is on.
"""

DATA = {
    "pairs_per_language": "at most {} pairs a language",
    "pairs_per_file": "at most {} pairs a file",
    "max_characters": "at most {} characters a line",
    "max_length": "at most {} tokens a sentence",
    "temperature": "temperature of sampling {}",
    "sts_train_rows": "{} made rows of STS to train on",
    "seed": "seed {}",
}

ASSISTANT = {
    "start": "start: {}",
    "num_layers": "{} layers",
    "hidden_dim": "width {}",
    "num_heads": "{} heads",
    "intermediate_dim": "feed-forward width {}",
    "bottleneck_dim": "word table of width {}",
    "projection_dim": "projected to {}",
    "normalize_first": "layer normalisation in front of each block: {}",
    "zero_residuals": "residuals begin at zero",
    "embedding_layer_norm": "layer normalisation of the embedding",
    "layer_norm_epsilon": "its epsilon {}",
    "word_branch": "word branch: {}",
    "dropout": "dropout {}",
    "pooling": "{} pooling",
    "normalize": "vectors of length one",
}

STUDENT = {
    "row": "shape of row {} of the paper",
    "num_layers": "{} layers",
    "hidden_dim": "width {}",
    "num_heads": "{} heads",
    "intermediate_dim": "feed-forward width {}",
    "dropout": "dropout {}",
    "bottleneck_dim": "word table of width {}",
    "start": "start: {}",
    "layers": "layers of the {} assistant",
    "changes": "of its own, {}",
}

STAGE = {
    "skip": "only for students that say so",
    "widths": "widths {}",
    "of": "trains the {}",
    "corpora": "corpora {}",
    "pairs_per_language": "at most {} pairs a language",
    "sets": "STS sets and their scales: {}",
    "languages": "languages {}",
    "dev_set": "weights chosen on {} dev",
    "dev_languages": "of its languages {}",
    "evaluate_every": "every {} updates",
    "patience": "ends after {} scores without a new best",
    "batch_size": "batches of {}",
    "chunk_size": "{} pairs in memory at a time",
    "learning_rate": "learning rate {}",
    "warmup": "warm-up over {} of the steps",
    "warmup_steps": "warm-up over {} steps",
    "schedule": "{} schedule",
    "weight_decay": "weight decay {}",
    "clip_norm": "gradient norm at most {}",
    "target": "contrastive target: {}",
    "kd_weight": "weight of the squared errors {}",
    "contrastive_weight": "weight of the contrastive term {}",
    "ams_weight": "weight of AMS {}",
    "feature_weight": "weight of the feature term {}",
    "logit_weight": "weight of the logit term {}",
    "feature": "feature term: {}",
    "margin": "margin {}",
    "scale": "scale {}",
    "temperature": "temperature {}",
    "frozen": "not trained: {}",
    "branch_alone": "the word branch alone is trained",
    "per_token": "per token: {}",
    "scored": "scored {} times on the way",
}

EVALUATE = {
    "un": "UN: precision at 1 x100 among all sentences, with {}",
    "bucc": "BUCC: best F1 x100 of mined pairs on the training split, with {}",
    "intermediate": "rows before a model's last: {}",
    "neighbours": "{} neighbours of a query",
    "artefacts": "finished models are timed and exported",
}
