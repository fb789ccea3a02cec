"""Makes the LaBSE-shaped checkpoints: tiny models, and what they answer.

Each is a whole folder with the files that sentence-transformers/LaBSE has: a BERT body
with its pooler, pooling by the first token, a square dense layer with tanh,
normalisation; a cased WordPiece vocabulary, as LaBSE's, and a lower-casing one. Every
tensor is redrawn, so that none can be forgotten without being seen. The vectors are
those of the folder as `sentence-transformers` reads it back. Texts and vocabularies are
those of make_golden.py, which must have run.

    pip install torch transformers sentence-transformers sentencepiece protobuf
    python tests/golden/make_labse.py

rewrites the folder `labse` beside this file; versions.json names what made it.
"""

import json
import platform
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import transformers
from make_golden import HERE, ROWS, SIZES, TEXTS, redraw
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)

FOLDER = HERE / "labse"
# Folders whose vocabulary is taken, and whether it lower-cases.
VOCABULARIES = {"cased": ("distilbert", False), "uncased": ("bert", True)}
WIDTH = SIZES["bert"]["hidden_size"]
# Settings files as they are published; today's versions write others.
PUBLISHED = {
    "modules.json": [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(["Transformer", "Pooling", "Dense", "Normalize"])
    ],
    "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
    "1_Pooling/config.json": {
        "word_embedding_dimension": WIDTH,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    },
    "2_Dense/config.json": {
        "in_features": WIDTH,
        "out_features": WIDTH,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    },
}


def make(name, seed, body):
    """Write one checkpoint and the vectors that it gives."""
    family, lowercase = VOCABULARIES[name]
    pieces = str(HERE / family / "tokenizer" / "vocab.txt")
    tokenizer = transformers.BertTokenizerFast(pieces, do_lower_case=lowercase)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=ROWS, **SIZES["bert"]
    )
    transformers.BertModel(config).save_pretrained(body)
    tokenizer.save_pretrained(body)

    modules = [Transformer(str(body)), Pooling(WIDTH, "cls"), Dense(WIDTH, WIDTH)]
    model = SentenceTransformer(modules=[*modules, Normalize()], device="cpu")
    redraw(model, seed)
    folder = FOLDER / name
    model.save(str(folder), create_model_card=False)
    (folder / "config_sentence_transformers.json").unlink()
    for file, value in PUBLISHED.items():
        (folder / file).write_text(json.dumps(value, indent=2) + "\n")
    vectors = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    save_file({"vectors": vectors}, folder / "expected.safetensors")


def main():
    """Rewrite the folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for seed, name in enumerate(VOCABULARIES):
        with tempfile.TemporaryDirectory() as body:
            make(name, seed, Path(body))
    for file in FOLDER.rglob("*.safetensors"):
        file.chmod(0o644)
    names = "torch transformers sentence-transformers tokenizers numpy safetensors"
    versions = {name: version(name) for name in names.split()}
    versions["python"] = platform.python_version()
    text = json.dumps(versions, indent=2) + "\n"
    (FOLDER / "versions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
