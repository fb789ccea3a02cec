"""Compare vectors of folders that sentence-transformers writes with those we read.

Tiny models with random weights: every family, pooling, activation and module that we
read, prompts, similarity functions and added special tokens, each as its own folder,
written and encoded by the peer's environment. Vectors of texts, of the same as queries
and as documents, and the similarities of texts are compared:

    python benchmarks/checkpoint_parity.py --peer-python PYTHON --json

Exit code 1: a number differs by more than 1e-5.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "results" / "checkpoint_parity.json"
LIMIT = 1e-5
TEXTS = [
    "A cat sleeps.",
    "Eine Katze schläft auf dem Sofa.",
    "  two  blanks and a tab\tinside ",
    "1, 2, 3: \"quotes\" and 'more'",
    "火车中午到达。 القطار",
    "long " * 40,
    "",
    "[QRY] where is the cat",
    "a cat[DOC] sleeps",
]
SIZES = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 42,
}
ACTIVATIONS = ("Tanh", "Identity")
POOLINGS = "mean", "cls", "max"
SIMILARITIES = "cosine", "dot", "euclidean", "manhattan"
MARKERS = "[DOC]", "[QRY]"
# Prompts and the name of the default one.
PROMPTS: dict[str, tuple[dict[str, str], str | None]] = {
    "query and document": ({"query": "query: ", "document": "passage: "}, None),
    "query and passage": ({"query": "query: ", "passage": "passage: "}, None),
    "a default": ({"other": "A dog: "}, "other"),
    "query by default": ({"query": "query: ", "document": "text: "}, "query"),
}
SIDES = "encode", "encode_query", "encode_document"


def answers(model: Any) -> dict[str, np.ndarray]:
    """Return what a model of either library makes of the texts, one at a time."""
    found = {
        side: np.concatenate([getattr(model, side)([text]) for text in TEXTS])
        for side in SIDES
    }
    vectors = found["encode"]
    found["similarity"] = np.asarray(model.similarity(vectors, vectors[:3]))
    return found


def peer(place: Path) -> None:
    """Write the folders and their vectors; runs in the peer's environment."""
    import sentence_transformers
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer, models
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import Unigram, WordPiece

    torch.manual_seed(0)
    letters = sorted(set("".join(TEXTS)) - {" ", "\t"})
    words = [word for text in TEXTS for word in text.split()]

    def wordpiece():
        """Return a tokenizer of letters."""
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        vocabulary += [*letters, *(f"##{it}" for it in letters)]
        names = {name: row for row, name in enumerate(dict.fromkeys(vocabulary))}
        made = Tokenizer(WordPiece(names, unk_token="[UNK]"))  # noqa: S106
        made.normalizer = normalizers.BertNormalizer(lowercase=False)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return transformers.BertTokenizerFast(
            tokenizer_object=made, model_max_length=40, do_lower_case=False
        )

    def unigram():
        """Return a tokenizer of letters and words."""
        pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *letters]
        pieces += [f"▁{word}" for word in words]
        scored = [(it, -float(row)) for row, it in enumerate(dict.fromkeys(pieces))]
        made = Tokenizer(Unigram(scored, unk_id=3))
        made.normalizer = normalizers.NFKC()
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.post_processor = processors.TemplateProcessing(
            "<s> $A </s>", "<s> $A </s> $B </s>", [("<s>", 0), ("</s>", 2)]
        )
        special = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
        special |= {"cls": "<s>", "sep": "</s>"}
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=made,
            model_max_length=40,
            **{f"{name}_token": token for name, token in special.items()},
        )

    families = {
        "bert": (transformers.BertConfig, wordpiece, {}),
        "distilbert": (transformers.DistilBertConfig, wordpiece, {}),
        "xlm-roberta": (transformers.XLMRobertaConfig, unigram, {"pad_token_id": 1}),
        "camembert": (transformers.CamembertConfig, unigram, {"pad_token_id": 1}),
    }
    cases = {f"family {name}": (name, "mean", ()) for name in families}
    cases |= {f"pooling {name}": ("bert", name, ()) for name in POOLINGS}
    cases |= {f"Dense, {name}": ("bert", "mean", (name,)) for name in ACTIVATIONS}
    cases["Dense, Normalize"] = ("xlm-roberta", "mean", ("Tanh", ""))
    cases["Normalize"] = ("distilbert", "cls", ("",))
    cases |= {f"prompts, {name}": ("bert", "mean", ()) for name in PROMPTS}
    cases |= {f"similarity {name}": ("bert", "cls", ()) for name in SIMILARITIES}
    marked = {f"markers, {name}": (name, "mean", ()) for name in ("bert", "camembert")}
    cases |= marked
    for number, (case, (family, pooling, rest)) in enumerate(cases.items()):
        config, tokenizer, more = families[family]
        sizes = dict(SIZES)
        if family == "distilbert":
            names = "dim", "n_layers", "n_heads", "hidden_dim"
            sizes = {"vocab_size": 400, "max_position_embeddings": 42}
            sizes |= dict(zip(names, list(SIZES.values())[1:5], strict=True))
        made = transformers.AutoModel.from_config(config(**sizes, **more))
        for weight in made.parameters():
            torch.nn.init.normal_(weight, 0, 0.2)
        base = place / f"base_{number}"
        made.save_pretrained(base)
        names = tokenizer()
        if case in marked:
            names.add_tokens(list(MARKERS), special_tokens=True)
        names.save_pretrained(base)
        parts = [models.Transformer(str(base))]
        parts.append(models.Pooling(32, pooling_mode=pooling))
        width = 32
        for name in rest:
            if not name:
                parts.append(models.Normalize())
                continue
            activation = getattr(torch.nn, name)()
            parts.append(models.Dense(width, 24, activation_function=activation))
            width = 24
        model = SentenceTransformer(modules=parts, device="cpu")
        model.max_seq_length = 40
        if case.startswith("similarity"):
            model.similarity_fn_name = case.split()[1]
        prompts, default = PROMPTS.get(case.partition(", ")[2], ({}, None))
        model.prompts, model.default_prompt_name = dict(prompts), default
        folder = str(place / f"{number}")
        model.save(folder)
        model = SentenceTransformer(folder, device="cpu")
        np.savez(place / f"{number}.npz", **answers(model))
        (place / f"{number}.txt").write_text(case, encoding="utf-8")
    versions = {
        "sentence-transformers": sentence_transformers.__version__,
        "transformers": transformers.__version__,
    }
    (place / "versions.json").write_text(json.dumps(versions), encoding="utf-8")


def main() -> None:
    """Print the largest difference of each folder, relative where above 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--peer-python",
        default=sys.executable,
        help="Python with sentence-transformers, this one by default",
    )
    parser.add_argument("--json", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        peer(given.make)
        return
    import keras_msd as msd

    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [given.peer_python, __file__, "--make", folder]
        quiet = os.environ | {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        subprocess.run(command, check=True, env=quiet)
        for path in sorted(Path(folder).glob("*.txt"), key=lambda it: int(it.stem)):
            found = answers(msd.load_encoder(path.with_suffix("")))
            with np.load(path.with_suffix(".npz")) as known:
                # A similarity is as exact as the largest of its kind.
                worst = max(
                    float(np.abs(found[name] - known[name]).max())
                    / max(1.0, float(np.abs(known[name]).max()))
                    for name in found
                )
            rows[path.read_text(encoding="utf-8")] = worst
            print(f"{worst:.1e}  {path.read_text(encoding='utf-8')}", flush=True)
        versions = json.loads((Path(folder) / "versions.json").read_text("utf-8"))
    if given.json:
        result = {"largest_difference": rows, "texts": len(TEXTS), "peer": versions}
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.exit(int(max(rows.values()) > LIMIT))


if __name__ == "__main__":
    main()
