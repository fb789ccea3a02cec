"""A recipe of a few seconds, and the data folder that it reads."""

import gzip
import random

RECIPE = """
extends = "_shared"
[recipe]
name = "small"
title = "Small"
scales = ["smoke"]
[student]
unit_layers = 1
bottleneck_dim = 4
start = "svd"
[smoke.teacher]
dim = 16
[smoke.data]
kind = "folder"
languages = ["de"]
max_length = 16
[smoke.tokenizer]
vocabulary_size = 40
[smoke.assistant]
num_layers = 2
hidden_dim = 16
num_heads = 2
intermediate_dim = 32
[smoke.evaluate]
intermediate = "cross_lingual"
sets = ["examples", "tatoeba"]
[smoke.stages.teach_assistant]
steps = 3
batch_size = 16
[smoke.stages.align_embedding]
steps = 2
batch_size = 16
[smoke.stages.teach_student]
steps = 2
batch_size = 16
corpora = ["other"]
frozen = ["embedding"]
[smoke.stages.contrastive_learning]
steps = 2
batch_size = 16
pairs_per_language = 40
"""
GERMAN = {
    "cat": "Katze", "dog": "Hund", "house": "Haus", "tree": "Baum", "river": "Fluss",
    "bird": "Vogel", "sees": "sieht", "likes": "mag", "the": "das", "near": "nahe",
}  # fmt: skip
NOUNS, VERBS = list(GERMAN)[:6], list(GERMAN)[6:8]


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def sentences(count, seed):
    draw = random.Random(seed).choice
    return [
        f"the {draw(NOUNS)} {draw(VERBS)} the {draw(NOUNS)} near the {draw(NOUNS)}"
        for _ in range(count)
    ]


def german(text):
    return " ".join(GERMAN[word] for word in text.split())


def write_place(folder):
    """Write the recipe `small.toml` and the folder `data`; return their parent."""
    (folder / "small.toml").write_text(RECIPE)
    for seed, name in enumerate(("train/some", "train/other", "dev/some")):
        rows = [(text, german(text)) for text in sentences(120, seed)]
        write_rows(folder / f"data/parallel/{name}.en-de.tsv.gz", rows)
    pairs = list(zip(sentences(30, 5), sentences(30, 6), strict=True))
    gold = [str(len(set(a.split()) & set(b.split()))) for a, b in pairs]
    for code, say in (("en", str), ("de", german)):
        rows = [(g, say(a), say(b)) for g, (a, b) in zip(gold, pairs, strict=True)]
        write_rows(folder / f"data/sts/examples.dev.{code}.tsv.gz", rows)
    rows = [(text, german(text)) for text in sentences(20, 7)]
    write_rows(folder / "data/tatoeba/tatoeba.deu-eng.tsv.gz", rows)
    rows = [(text, text[::-1]) for text in sentences(9, 8)]
    write_rows(folder / "data/tatoeba/tatoeba.fin-eng.tsv.gz", rows)
    return folder
