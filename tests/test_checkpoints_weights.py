"""Reading checkpoint files: names, shapes, types, and what is refused."""

import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_msd.checkpoints.weights import read_checkpoint
from keras_msd.checks import InputError
from keras_msd.io.tensors import TensorFile

GOLDEN = Path(__file__).parent / "golden"
SINGLE = {"bert": 0, "distilbert": 1, "roberta": 0, "xlm-roberta": 1, "minilm": 0}
BERT = GOLDEN / "bert" / "variant_0"


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a golden folder, settings and tensors changed."""

    def make(source=BERT, settings=(), tensors=None):
        folder = tmp_path / "copy"
        shutil.copytree(source, folder)
        (folder / "expected.safetensors").unlink()
        if settings:
            old = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(old | settings))
        if tensors:
            path = folder / "model.safetensors"
            save_file(tensors(load_file(path)), path)
        return folder

    return make


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[key], other[key]) for key in one
    )


@pytest.mark.parametrize("family", SINGLE)
def test_any_prefix_and_old_names_give_the_same_weights(family, copy):
    source = GOLDEN / family / f"variant_{SINGLE[family]}"
    word = "embeddings.word_embeddings.weight"
    prefix = next(
        key.removesuffix(word)
        for key in load_file(source / "model.safetensors")
        if key.endswith(word)
    )

    def rename(tensors):
        def new(key):
            old = key.replace("LayerNorm.weight", "LayerNorm.gamma")
            old = old.replace("LayerNorm.bias", "LayerNorm.beta")
            if key.startswith(prefix):
                return f"encoder_q.0.{old.removeprefix(prefix)}"
            return key

        return {new(key): value for key, value in tensors.items()}

    fields, arrays = read_checkpoint(source)
    assert fields["num_layers"] == 2 and len(arrays) == 3 + 2 + 2 * 16
    other_fields, other = read_checkpoint(copy(source, tensors=rename))
    assert other_fields == fields and same(other, arrays)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_other_floats_become_float32(kind, copy):
    folder = copy(tensors=lambda old: {k: v.astype(kind) for k, v in old.items()})
    expected = read_checkpoint(BERT)[1]
    arrays = read_checkpoint(folder)[1]
    assert {value.dtype for value in arrays.values()} == {np.dtype("float32")}
    wanted = {k: v.astype(kind).astype("float32") for k, v in expected.items()}
    assert same(arrays, wanted)


def test_buffers_and_unused_heads_are_passed_over(copy):
    position_ids = {"embeddings.position_ids": np.arange(40)[None]}
    folder = copy(tensors=lambda old: old | position_ids)
    assert "pooler.dense.weight" in load_file(folder / "model.safetensors")
    assert same(read_checkpoint(folder)[1], read_checkpoint(BERT)[1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_type": "t5"}, "`model_type`.*t5"),
        ({"hidden_act": "silu"}, "hidden_act.*silu"),
        ({"position_embedding_type": "relative_key"}, "absolute.*relative_key"),
        ({"is_decoder": True}, "is_decoder"),
        ({"num_attention_heads": 5}, "`num_attention_heads` must divide"),
        ({"hidden_size": "12"}, "`hidden_size`.*'12'"),
        ({"num_hidden_layers": 3}, "lacks the tensor `encoder.layer.2"),
        ({"num_hidden_layers": 1}, "16 tensors.*encoder.layer.1"),
        ({"intermediate_size": 21}, r"\(21, 12\).*\(20, 12\)"),
        ({"max_position_embeddings": 41}, r"position_embeddings.*\(41, 12\)"),
        ({"type_vocab_size": 1}, r"token_type_embeddings.*\(1, 12\)"),
        ({"model_type": "distilbert"}, "`dim`"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, words, copy):
    with pytest.raises(InputError, match=words):
        read_checkpoint(copy(settings=settings))


WORD = "embeddings.word_embeddings.weight"
QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda old: old | {"encoder.extra.weight": old[QUERY]}, "encoder.extra"),
        (lambda old: {k: v for k, v in old.items() if k != QUERY}, f"lacks.*{QUERY}"),
        (lambda old: {k: v for k, v in old.items() if k != WORD}, "Received: 0"),
        (lambda old: old | {"b." + WORD: old[WORD]}, "Received: 2"),
        (lambda old: old | {QUERY: old[QUERY].astype(np.int8)}, "I8"),
        (lambda old: old | {QUERY: old[QUERY].reshape(-1)}, r"\(144,\)"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(change, words, copy, monkeypatch):
    def read(*_):
        raise RuntimeError("a tensor was read before all were checked")

    monkeypatch.setattr(TensorFile, "read", read)
    with pytest.raises(InputError, match=words):
        read_checkpoint(copy(tensors=change))


@pytest.mark.parametrize("keep", [0, 300])
def test_truncated_files_are_refused(keep, copy):
    folder = copy()
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="cut short or damaged"):
        read_checkpoint(folder)


def test_pickled_weights_are_refused(copy):
    folder = copy()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="pytorch_model.bin.*save_pretrained"):
        read_checkpoint(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match="must hold `model.safetensors`.*no weights"):
        read_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match="config.json` does not exist"):
        read_checkpoint(folder)
    with pytest.raises(InputError, match="does not exist"):
        read_checkpoint(folder / "nowhere")
