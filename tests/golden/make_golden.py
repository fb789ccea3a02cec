"""Makes the golden checkpoints: tiny models by `transformers`, and what they answer.

Every tensor is redrawn (standard deviation 0.3, LayerNorm gains around 1, biases and
token types too), so that none can be forgotten without being seen. Each family has four
variants: two epsilons times two gelus; whether a variant is a bare or a task model
rotates from family to family. DistilBERT's epsilon is fixed at 1e-12.
`sentence` holds four module stacks by `sentence-transformers` over one BERT model, and
the default teacher's vectors for the same texts.

    pip install torch transformers sentence-transformers sentencepiece protobuf
    python tests/golden/make_golden.py --teacher FOLDER_OF_ALL_MINILM_L6_V2

rewrites everything beside this file; versions.json names the versions that made it.
"""

import argparse
import json
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)

HERE = Path(__file__).parent
ROWS = 40  # of the position table
TEXTS = [
    "The cat sleeps on the chair.",
    "A dog runs in the park, and nobody knows why it never stops barking at trains.",
    "",
    "Größe, café, naïve, straße and İstanbul.",
    "猫は椅子で眠る。",
    "مرحبا بالعالم",
    "I paid 3,50 € for 2 🍎!",
    "x",
]
CORPUS = [
    *TEXTS,
    "The train arrives at noon and the dog waits for the cat.",
    "We drink coffee in the morning; she reads a long book on the old chair.",
    "Die Katze schläft auf dem Stuhl. Le chat dort sur la chaise. Un café, s'il vous.",
]
SHAPE = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2}
SIZES = {
    "bert": SHAPE | {"intermediate_size": 20, "type_vocab_size": 2},
    "distilbert": {"dim": 12, "n_heads": 3, "n_layers": 2, "hidden_dim": 20},
    "roberta": SHAPE | {"intermediate_size": 20, "type_vocab_size": 1},
    "xlm-roberta": SHAPE | {"intermediate_size": 20, "type_vocab_size": 1},
    "minilm": SHAPE | {"intermediate_size": 20, "type_vocab_size": 2},
}
MODELS = {
    "bert": ("Bert", transformers.BertConfig),
    "distilbert": ("DistilBert", transformers.DistilBertConfig),
    "roberta": ("Roberta", transformers.RobertaConfig),
    "xlm-roberta": ("XLMRoberta", transformers.XLMRobertaConfig),
    "minilm": ("Bert", transformers.BertConfig),
}
SETTINGS = [("gelu", 1e-12), ("gelu", 1e-5), ("gelu_new", 1e-12), ("gelu_new", 1e-5)]
HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification", "Model"]


def wordpiece_vocabulary(lowercase):
    """Return characters, continuations and words; the library's trainer is random."""
    rules = tokenizers.BertWordPieceTokenizer(lowercase=lowercase)
    words = {
        word
        for text in CORPUS
        for word, _ in rules.pre_tokenizer.pre_tokenize_str(
            rules.normalizer.normalize_str(text)
        )
    }
    letters = sorted(set("".join(words)) - set("i🍎"))  # so that [UNK] occurs
    longer = sorted(word for word in words if 2 < len(word) < 6)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return [*special, *letters, *("##" + one for one in letters), *longer, "##ing"]


def make_tokenizer(family, folder):
    """Write a tokenizer trained on CORPUS; return it as `transformers` reads it."""
    folder.mkdir(parents=True)
    if family in ("bert", "distilbert"):
        pieces = wordpiece_vocabulary(lowercase=family == "bert")
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        kind = transformers.BertTokenizerFast
        result = kind(str(folder / "vocab.txt"), do_lower_case=family == "bert")
    elif family == "roberta":
        made = tokenizers.ByteLevelBPETokenizer()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        made.train_from_iterator(
            CORPUS, vocab_size=300, special_tokens=special, show_progress=False
        )
        made.save_model(str(folder))
        names = (str(folder / "vocab.json"), str(folder / "merges.txt"))
        result = transformers.RobertaTokenizerFast(*names)
    else:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_prefix=str(folder / "sentencepiece.bpe"),
            vocab_size=150,
            normalization_rule_name="nmt_nfkc",
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / "sentencepiece.bpe.vocab").unlink()
        kind = transformers.XLMRobertaTokenizerFast
        result = kind.from_pretrained(folder)
    result.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink(missing_ok=True)
    return result


def redraw(model, seed):
    """Give every tensor new values."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            drawn = torch.randn(tensor.shape, generator=generator) * 0.3
            gain = name.lower().endswith("norm.weight")
            tensor.copy_(1 + drawn / 3 if gain else drawn)


def make_model(family, tokenizer, activation, epsilon, head, folder, seed):
    """Write one checkpoint and its answers."""
    prefix, config_class = MODELS[family]
    fields = {
        "vocab_size": len(tokenizer) + (3 if family == "minilm" else 0),
        "max_position_embeddings": ROWS,
        "pad_token_id": 0 if family == "minilm" else tokenizer.pad_token_id,
        "tokenizer_class": "XLMRobertaTokenizer" if family == "minilm" else None,
    }
    if family == "distilbert":
        fields |= {"activation": activation}
    else:
        fields |= {"hidden_act": activation, "layer_norm_eps": epsilon}
    config = config_class(**fields | SIZES[family])
    model = getattr(transformers, prefix + head)(config).eval()
    redraw(model, seed)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    offset = tokenizer.pad_token_id + 1 if "roberta" in family else 0
    batch = tokenizer(
        TEXTS,
        padding=True,
        truncation=True,
        max_length=ROWS - offset,
        return_tensors="pt",
    )
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        body = getattr(model, model.base_model_prefix, model)
        hidden = body(input_ids=ids, attention_mask=mask).last_hidden_state
    weights = mask[..., None].float()
    pooled = (hidden * weights).sum(1) / weights.sum(1)
    save_file(
        {
            "token_ids": ids.numpy().astype(np.int32),
            "padding_mask": mask.numpy().astype(np.int32),
            "hidden": hidden.numpy(),
            "pooled": pooled.numpy(),
        },
        folder / "expected.safetensors",
    )


def make_stacks(source, folder):
    """Write module stacks over one BERT checkpoint, and the vectors they give."""
    torch.manual_seed(5)
    stacks = {
        "mean_normalize": [Pooling(12, "mean"), Normalize()],
        "cls_tanh": [Pooling(12, "cls"), Dense(12, 7), Normalize()],
        "max_identity": [
            Pooling(12, "max"),
            Dense(12, 7, bias=False, activation_function=torch.nn.Identity()),
        ],
        "max_plain": [Pooling(12, "max")],
    }
    for name, modules in stacks.items():
        body = Transformer(str(source), max_seq_length=12)
        model = SentenceTransformer(modules=[body, *modules], device="cpu")
        model.save(str(folder / name), create_model_card=False)
        vectors = model.encode(TEXTS)
        for file in (folder / name).glob("*.safetensors"):
            file.unlink()  # the body is `source`
        for file in ("config.json", "tokenizer.json"):
            (folder / name / file).unlink()
        save_file({"vectors": vectors}, folder / name / "expected.safetensors")


def main():
    """Rewrite the folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--teacher", type=Path, required=True)
    teacher = parser.parse_args().teacher
    for family in [*SIZES, "sentence"]:
        shutil.rmtree(HERE / family, ignore_errors=True)
    for row, family in enumerate(SIZES):
        tokenizer = make_tokenizer(family, HERE / family / "tokenizer")
        for column, (activation, epsilon) in enumerate(SETTINGS):
            head = HEADS[(row + column) % len(HEADS)]
            folder = HERE / family / f"variant_{column}"
            folder.mkdir()
            seed = 100 * row + column
            make_model(family, tokenizer, activation, epsilon, head, folder, seed)
    source = HERE / "source"
    shutil.copytree(HERE / "bert" / "tokenizer", source)
    shutil.copytree(HERE / "bert" / "variant_0", source, dirs_exist_ok=True)
    make_stacks(source, HERE / "sentence")
    shutil.rmtree(source)
    vectors = SentenceTransformer(str(teacher), device="cpu").encode(TEXTS)
    save_file({"vectors": vectors}, HERE / "sentence" / "all_minilm_l6_v2.safetensors")
    names = "torch transformers sentence-transformers tokenizers sentencepiece numpy"
    versions = {name: version(name) for name in [*names.split(), "safetensors"]}
    versions["python"] = platform.python_version()
    for file, value in {"texts": TEXTS, "versions": versions}.items():
        text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        (HERE / f"{file}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
