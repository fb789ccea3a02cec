"""Names of the tensors in published checkpoints, one table per family.

A table maps a checkpoint's key, without its prefix, to the path of our weight; `{i}`
stands for the layer. Checkpoints hold linear maps as `(out, in)`, ours are `(in, out)`,
and attention maps have the heads apart.
"""

import re
from typing import Any, NamedTuple

import numpy as np

_BLOCK = "body/block_{i}/"
_ATTENTION = _BLOCK + "self_attention_layer/"


def _linear(keys: dict[str, str]) -> dict[str, str]:
    return {
        f"{key}.{theirs}": f"{path}/{ours}"
        for key, path in keys.items()
        for theirs, ours in (("weight", "kernel"), ("bias", "bias"))
    }


def _norm(keys: dict[str, str]) -> dict[str, str]:
    return {
        f"{key}.{theirs}": f"{path}/{ours}"
        for key, path in keys.items()
        for theirs, ours in (("weight", "gamma"), ("bias", "beta"))
    }


BERT_KEYS = {
    "embeddings.word_embeddings.weight": "embedding/word",
    "embeddings.position_embeddings.weight": "embedding/position",
    "embeddings.token_type_embeddings.weight": "embedding/type",
    **_norm(
        {
            "embeddings.LayerNorm": "embedding/layer_norm",
            "encoder.layer.{i}.attention.output.LayerNorm": _BLOCK
            + "self_attention_layer_norm",
            "encoder.layer.{i}.output.LayerNorm": _BLOCK + "feedforward_layer_norm",
        }
    ),
    **_linear(
        {
            "encoder.layer.{i}.attention.self.query": _ATTENTION + "query",
            "encoder.layer.{i}.attention.self.key": _ATTENTION + "key",
            "encoder.layer.{i}.attention.self.value": _ATTENTION + "value",
            "encoder.layer.{i}.attention.output.dense": _ATTENTION + "attention_output",
            "encoder.layer.{i}.intermediate.dense": _BLOCK
            + "feedforward_intermediate_dense",
            "encoder.layer.{i}.output.dense": _BLOCK + "feedforward_output_dense",
        }
    ),
}
DISTILBERT_KEYS = {
    "embeddings.word_embeddings.weight": "embedding/word",
    "embeddings.position_embeddings.weight": "embedding/position",
    **_norm(
        {
            "embeddings.LayerNorm": "embedding/layer_norm",
            "transformer.layer.{i}.sa_layer_norm": _BLOCK + "self_attention_layer_norm",
            "transformer.layer.{i}.output_layer_norm": _BLOCK
            + "feedforward_layer_norm",
        }
    ),
    **_linear(
        {
            "transformer.layer.{i}.attention.q_lin": _ATTENTION + "query",
            "transformer.layer.{i}.attention.k_lin": _ATTENTION + "key",
            "transformer.layer.{i}.attention.v_lin": _ATTENTION + "value",
            "transformer.layer.{i}.attention.out_lin": _ATTENTION + "attention_output",
            "transformer.layer.{i}.ffn.lin1": _BLOCK + "feedforward_intermediate_dense",
            "transformer.layer.{i}.ffn.lin2": _BLOCK + "feedforward_output_dense",
        }
    ),
}
_BERT_SETTINGS = {
    "vocabulary_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "num_types": "type_vocab_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}
_DISTILBERT_SETTINGS = {
    "vocabulary_size": "vocab_size",
    "hidden_dim": "dim",
    "num_layers": "n_layers",
    "num_heads": "n_heads",
    "intermediate_dim": "hidden_dim",
    "activation": "activation",
    "dropout": "dropout",
}


class Family(NamedTuple):
    """How one kind of checkpoint names its tensors and settings.

    `positions_after_padding`: the first token takes position row `pad_token_id + 1`.
    `pad_id`: the pad token where config.json names none.
    """

    keys: dict[str, str]
    settings: dict[str, str]
    positions_after_padding: bool
    pad_id: int


FAMILIES = {
    "bert": Family(BERT_KEYS, _BERT_SETTINGS, False, 0),
    "distilbert": Family(DISTILBERT_KEYS, _DISTILBERT_SETTINGS, False, 0),
    "roberta": Family(BERT_KEYS, _BERT_SETTINGS, True, 1),
    "xlm-roberta": Family(BERT_KEYS, _BERT_SETTINGS, True, 1),
}

# Index buffers hold no knowledge; poolers and heads belong to tasks, not to the body.
BUFFERS = re.compile(r"embeddings\.(position_ids|token_type_ids)")
HEADS = re.compile(
    r"(pooler|cls|lm_head|classifier|pre_classifier|qa_outputs"
    r"|vocab_transform|vocab_layer_norm|vocab_projector)\..+"
)


def modern_name(key: str) -> str:
    """Return `key` with the `gamma` and `beta` of old checkpoints renamed."""
    return re.sub(
        r"LayerNorm\.(gamma|beta)$",
        lambda found: "LayerNorm." + {"gamma": "weight", "beta": "bias"}[found[1]],
        key,
    )


def layer_keys(family: Family, num_layers: int) -> dict[str, str]:
    """Return checkpoint key -> weight path for every layer, without a prefix."""
    return {
        key.format(i=i): path.format(i=i)
        for key, path in family.keys.items()
        for i in (range(num_layers) if "{i}" in key else (0,))
    }


def stored_shape(path: str, fields: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape that the tensor for weight `path` has in a checkpoint."""
    hidden, inner = fields["hidden_dim"], fields["intermediate_dim"]
    rows = {
        "embedding/word": fields["vocabulary_size"],
        "embedding/position": fields["max_length"] + fields["position_offset"],
        "embedding/type": fields["num_types"],
    }
    if path in rows:
        return rows[path], hidden
    out = inner if "feedforward_intermediate_dense" in path else hidden
    if not path.endswith("/kernel"):
        return (out,)
    return out, (inner if "feedforward_output_dense" in path else hidden)


def to_own_layout(path: str, tensor: np.ndarray, heads: int) -> np.ndarray:
    """Return a checkpoint's tensor in the layout of our weight `path`."""
    if path.endswith("/kernel"):
        tensor = tensor.T
    if re.search(r"/(query|key|value)/", path):
        return tensor.reshape(*tensor.shape[:-1], heads, tensor.shape[-1] // heads)
    if path.endswith("/attention_output/kernel"):
        return tensor.reshape(heads, tensor.shape[0] // heads, tensor.shape[1])
    return tensor
