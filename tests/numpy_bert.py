"""A folder in sentence-transformers layout, read and run by NumPy alone."""

import json
import math

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def backend(folder):
    """Return the `tokenizers` tokenizer, set as transformers sets it."""
    settings = read(folder / "tokenizer_config.json")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = settings["split_special_tokens"]
    tokenizer.enable_truncation(settings["model_max_length"])
    return tokenizer


def norm(x, tensors, name, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def linear(x, tensors, name):
    return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0)


ACTIVATIONS = {
    "gelu": np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "relu": lambda x: np.maximum(x, 0),
    "gelu_new": lambda x: (
        x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    ),
}


def token_vectors(folder, ids):
    """Return BERT's last hidden state of one sentence, `(length, width)`."""
    config = read(folder / "config.json")
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: value.astype(np.float64) for name, value in tensors.items()}
    epsilon, heads = config["layer_norm_eps"], config["num_attention_heads"]
    x = tensors["embeddings.word_embeddings.weight"][ids]
    x = x + tensors["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + tensors["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, tensors, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        q, k, v = (
            linear(x, tensors, f"{at}attention.self.{part}")
            .reshape(len(ids), heads, -1)
            .swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ v
        mixed = mixed.swapaxes(0, 1).reshape(len(ids), -1)
        mixed = linear(mixed, tensors, f"{at}attention.output.dense")
        x = norm(x + mixed, tensors, f"{at}attention.output.LayerNorm", epsilon)
        wide = linear(x, tensors, f"{at}intermediate.dense")
        wide = ACTIVATIONS[config["hidden_act"]](wide)
        change = linear(wide, tensors, f"{at}output.dense")
        x = norm(x + change, tensors, f"{at}output.LayerNorm", epsilon)
    return x


def sentence_vector(folder, hidden):
    """Return what the modules after the transformer make of `(length, width)`."""
    modules = read(folder / "modules.json")
    kinds = [entry["type"].rpartition(".")[2] for entry in modules]
    assert kinds[:2] == ["Transformer", "Pooling"]
    settings = read(folder / modules[1]["path"] / "config.json")
    assert settings["word_embedding_dimension"] == hidden.shape[-1]
    poolings = {
        "pooling_mode_mean_tokens": hidden.mean(0),
        "pooling_mode_cls_token": hidden[0],
        "pooling_mode_max_tokens": hidden.max(0),
    }
    (vector,) = (value for key, value in poolings.items() if settings[key])
    for entry, kind in zip(modules[2:], kinds[2:], strict=True):
        if kind == "Normalize":
            vector = vector / np.linalg.norm(vector)
            continue
        tensors = load_file(folder / entry["path"] / "model.safetensors")
        vector = linear(vector, tensors, "linear")
        settings = read(folder / entry["path"] / "config.json")
        if settings["activation_function"].endswith(".Tanh"):
            vector = np.tanh(vector)
    return vector
