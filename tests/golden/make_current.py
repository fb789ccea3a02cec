"""Makes `current`: folders by today's sentence-transformers and model2vec, and vectors.

Each folder of `stacks` lacks its body, which is bert/tokenizer and bert/variant_0, as
make_golden.py left them; `static` and `model2vec` are whole, with random tables of the
vocabulary of bert/tokenizer; `camembert` is whole. Needs no network:

    pip install torch transformers sentence-transformers model2vec
    python tests/golden/make_current.py

rewrites `current`; its versions.json names the versions that made it.
"""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
import transformers
from model2vec import StaticModel
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer

HERE = Path(__file__).parent
OUT = HERE / "current"
TEXTS = [
    *json.loads((HERE / "texts.json").read_text(encoding="utf-8")),
    " leading and trailing \n",
    "The cat 🍎 and the 🍎 dog.",
    "🍎",
]
WIDTH = 12


def stacks():
    """Return name -> modules after the transformer."""
    return {"prompt": [Pooling(WIDTH, "mean"), Normalize()]}


def write_stacks(source):
    """Write every stack over one body, and the vectors it gives."""
    for name, modules in stacks().items():
        given = {}
        if name == "prompt":
            given = {"prompts": {"q": "The dog: "}, "default_prompt_name": "q"}
        body = Transformer(str(source), max_seq_length=12)
        model = SentenceTransformer(modules=[body, *modules], device="cpu", **given)
        folder = OUT / "stacks" / name
        model.save(str(folder), create_model_card=False)
        vectors = model.encode(TEXTS)
        for file in ("model.safetensors", "config.json", "tokenizer.json"):
            (folder / file).unlink()  # the body's
        save_file({"vectors": vectors}, folder / "expected.safetensors")


def write_static(tokenizer, draw):
    """Write static embeddings of sentence-transformers and models of model2vec."""
    rows = tokenizer.get_vocab_size()
    table = draw.normal(size=(rows, 6)).astype(np.float32)
    for name, more in {
        "plain": [],
        "normalized": [Normalize()],
        "dense": [Dense(6, 4), Normalize()],
    }.items():
        first = StaticEmbedding(tokenizer, embedding_weights=table)
        model = SentenceTransformer(modules=[first, *more], device="cpu")
        folder = OUT / "static" / name
        model.save(str(folder), create_model_card=False)
        save_file({"vectors": model.encode(TEXTS)}, folder / "expected.safetensors")
    few = draw.normal(size=(5, 6)).astype(np.float32)
    mapping = draw.integers(0, 5, rows)
    weights = draw.uniform(0.5, 2, rows).astype(np.float32)
    for name, model in {
        "plain": StaticModel(table, tokenizer, normalize=False),
        "normalized": StaticModel(table, tokenizer, normalize=True),
        "half": StaticModel(table.astype(np.float16), tokenizer, normalize=True),
        "quantized": StaticModel(
            few, tokenizer, normalize=True, weights=weights, token_mapping=mapping
        ),
    }.items():
        folder = OUT / "model2vec" / name
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        vectors = np.asarray(model.encode(TEXTS), np.float32)
        save_file({"vectors": vectors}, folder / "expected.safetensors")


def write_camembert():
    """Write a tiny CamemBERT with a tokenizer of its own."""
    folder = OUT / "camembert"
    folder.mkdir(parents=True)
    words = sorted({"▁" + word for text in TEXTS for word in text.split()})
    letters = sorted({letter for text in TEXTS for letter in text} - set(" \n🍎"))
    pieces = ["▁", *letters, *words[::2]]
    first = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    special = [*first, "<s>", "</s>"]
    vocabulary = [(name, 0.0) for name in special]
    vocabulary += [(piece, -2.0 - i / 16) for i, piece in enumerate(pieces)]
    vocabulary.append(("<mask>", 0.0))
    tokenizer = transformers.CamembertTokenizerFast(vocab=vocabulary)
    config = transformers.CamembertConfig(
        vocab_size=len(tokenizer),
        hidden_size=12,
        num_attention_heads=3,
        num_hidden_layers=2,
        intermediate_size=20,
        max_position_embeddings=40,
        type_vocab_size=1,
        pad_token_id=1,
    )
    torch.manual_seed(3)
    body = folder / "body"
    transformers.CamembertModel(config).save_pretrained(body)
    tokenizer.save_pretrained(body)
    transformer = Transformer(str(body), max_seq_length=30)
    modules = [transformer, Pooling(12, "mean")]
    model = SentenceTransformer(modules=modules, device="cpu")
    shutil.rmtree(folder)
    model.save(str(folder), create_model_card=False)
    save_file({"vectors": model.encode(TEXTS)}, folder / "expected.safetensors")


def main():
    """Rewrite the folder."""
    shutil.rmtree(OUT, ignore_errors=True)
    torch.manual_seed(7)
    source = HERE / "source"
    shutil.copytree(HERE / "bert" / "tokenizer", source)
    shutil.copytree(HERE / "bert" / "variant_0", source, dirs_exist_ok=True)
    try:
        write_stacks(source)
    finally:
        shutil.rmtree(source)
    tokenizer = Tokenizer.from_file(str(HERE / "bert" / "tokenizer" / "tokenizer.json"))
    write_static(tokenizer, np.random.default_rng(7))
    write_camembert()
    names = "torch transformers sentence-transformers model2vec tokenizers numpy"
    for file, value in {
        "texts": TEXTS,
        "versions": {name: version(name) for name in names.split()},
    }.items():
        text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        (OUT / f"{file}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
