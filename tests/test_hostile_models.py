"""Hostile tokenizers, checkpoints, encoders, vectors: refused before they cost much."""

import shutil
import struct
import zipfile

import numpy as np
import pytest
from hostile import BERT, MIB, refused, small, sparse
from safetensors.numpy import load_file, save_file

from keras_msd.checkpoints.checkpoint import load_checkpoint
from keras_msd.checkpoints.weights import read_checkpoint
from keras_msd.export.onnx_files import check_self_contained, load_ids
from keras_msd.io.files import VOCABULARY, add_seal, read_json, write_json
from keras_msd.load import load_teacher
from keras_msd.models.encoder import load_saved
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

pytestmark = pytest.mark.usefixtures("no_graphs")
IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4}
WORDS = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": IDS}
WORDS |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
PAIRS = {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "b": 1, "ab": 2, "é": 3}}
PAIRS["vocab"]["aé"] = 4
PAIRS["merges"] = [["a", "é"], ["é", "a"], ["a", "b"]]


@pytest.mark.parametrize(
    ("changes", "match"),
    [  # ids, before a row is kept for each; normalizers of no kind; merges that panic
        *(
            ({"model": WORDS | {"vocab": IDS | {"far": number}}}, "must run from 0")
            for number in (2**31, 2**40, -1, 7.5)
        ),
        *(({"normalizer": part}, "Normalizer") for part in ({"strip": 1}, "Bert", 5)),
        *(
            ({"model": PAIRS | {"continuing_subword_prefix": prefix}}, "can read")
            for prefix in ("é", "##")
        ),
    ],
)
def test_a_tokenizer_that_is_none(changes, match, tmp_path):
    content = {"version": "1.0", "added_tokens": [], "model": WORDS} | changes
    write_json(tmp_path / "tokenizer.json", content)
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": True})
    refused(lambda: read_checkpoint_tokenizer(tmp_path), f"tokenizer.json.*{match}")


@pytest.mark.parametrize("kind", [["unigram"], 5])
def test_a_kind_that_is_no_name(kind, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {"kind": kind})
    refused(lambda: load_tokenizer(tmp_path), "tokenizer_config.json.*kind")


def test_pieces_that_are_not_utf8(tokenizer):
    whole = tokenizer.definition
    model = whole.replace("▁".encode(), b"\xff\x96\x81")
    assert model != whole
    refused(lambda: SentencePieceTokenizer(model), "SentencePiece")


def test_a_vocabulary_over_the_limit(tmp_path):
    sparse(tmp_path / "tokenizer.json", VOCABULARY.most + 1)
    said = "tokenizer.json`: bytes of a vocabulary .*33,554,432. Received: 33,554,433"
    small(lambda: read_checkpoint_tokenizer(tmp_path), said, 8 * MIB)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"num_hidden_layers": 10**6}, "num_hidden_layers.*128"),
        ({"hidden_act": ["gelu"]}, "config.json.*hidden_act"),
        ({"model_type": ["bert"]}, "model_type"),
    ],
)
def test_settings_of_a_checkpoint(changes, match, tmp_path):
    write_json(tmp_path / "config.json", BERT | changes)
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    refused(lambda: read_checkpoint(tmp_path), match)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "e"
    tiny_encoder(num_layers=1).save(folder)
    return folder


@pytest.fixture
def saved(encoder_folder, tmp_path):
    folder = shutil.copytree(encoder_folder, tmp_path / "e")
    fields = read_json(folder / "encoder.json")["config"]
    return folder, load_file(folder / "weights.safetensors"), fields


def unbuilt(monkeypatch):
    def build(*_):
        raise AssertionError("the network was built")

    monkeypatch.setattr("keras_msd.models.encoder.build_model", build)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"vocabulary_size": 10**9}, "embedding/word.*1000000000"),
        ({"num_layers": 10**6}, "layers.*128"),
        ({"num_layers": 2}, "lacks.*block_1"),
        ({"hidden_dim": 10**12, "num_heads": 1}, "shape"),
        ({"layer_norm_epsilon": float("inf")}, "layer_norm_epsilon"),
        ({"pad_id": 10**9}, "pad_id"),
    ],
)
def test_an_encoder_is_compared_before_it_is_built(changes, match, saved, monkeypatch):
    folder, _, fields = saved
    unbuilt(monkeypatch)
    write_json(folder / "encoder.json", {"format": 1, "config": fields | changes})
    refused(lambda: load_saved(folder), match)


@pytest.mark.parametrize("record", [{"format": 1, "config": 5}, {"format": 1}, [], 5])
def test_an_encoder_without_settings(record, saved):
    write_json(saved[0] / "encoder.json", record)
    refused(lambda: load_saved(saved[0]), "encoder.json")


@pytest.mark.parametrize(
    "files",
    [None, 5, ["a"], {"../secret": "0"}, {"/etc/passwd": "0"}, {"a" * 300: "0"}],
)
def test_checksums_of_other_files(files, saved, monkeypatch):
    """Anybody can write a seal: what it is of is looked up in the folder alone."""
    folder, _, fields = saved
    (folder.parent / "secret").touch()
    record = {"format": 1, "config": fields} | ({"files": files} if files else {})
    write_json(folder / "encoder.json", add_seal(record, "encoder.json"))

    def look(*_):
        raise AssertionError("a file was opened")

    monkeypatch.setattr("keras_msd.io.files.cached_checksum", look)
    refused(lambda: load_saved(folder), "must be as it was written")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (lambda a: np.full_like(a, np.nan), "finite"),
        (lambda a: a.astype(np.int32), "F32"),
    ],
)
def test_weights_of_an_encoder(changed, match, saved):
    folder, weights, _ = saved
    weights["embedding/word"] = changed(weights["embedding/word"])
    save_file(weights, folder / "weights.safetensors")
    refused(lambda: load_saved(folder), match)


@pytest.mark.parametrize("place", ["a" * 300, "a\0b", "../a", 5])
def test_a_module_lies_in_a_folder_within(place, tmp_path):
    kind = "sentence_transformers.models.Transformer"
    entries = [{"idx": 0, "name": "0", "path": place, "type": kind}]
    pooling = {"type": "sentence_transformers.models.Pooling", "path": "1"}
    write_json(tmp_path / "modules.json", [*entries, pooling])
    refused(lambda: load_checkpoint(tmp_path), "modules.json.*Received: ")


def npz(path, vectors, sentences=("a", "b")):
    np.savez_compressed(path, sentences=np.array(sentences), vectors=vectors)
    return path


@pytest.mark.parametrize(
    ("vectors", "match"),
    [
        (np.zeros((2, 3)), "differ"),
        (np.ones((2, 3)), "differ"),
        (np.eye(2) * 1j, "complex"),
        (np.array([["1", "2"], ["2", "1"]]), "numbers"),
    ],
)
def test_vectors_that_teach_nothing(vectors, match, tmp_path):
    refused(lambda: load_teacher(npz(tmp_path / "v.npz", vectors)), match)
    refused(lambda: load_teacher(lambda texts: [*vectors], name="f"), match)


def npy(shape, data=b"", kind="<f4"):
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "data",
    [
        npy((1 << 32, 1)),
        npy((1 << 62, 4)),
        npy((-1, 4)),
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 9000,
        b"\x93NUMPY\x01\x00\xff\xff" + b"-" * 9000,
        npy((1,), bytes(8), "|O"),
        npy((16 << 20,), bytes(64 << 20)),
    ],
    ids=range(7),
)
def test_arrays_larger_than_their_file(data, tmp_path):
    with zipfile.ZipFile(tmp_path / "v.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("vectors.npy", data)
    refused(lambda: load_teacher(tmp_path / "v.npz"), "v.npz")


def test_vectors_that_unpack_to_much_more(tmp_path):
    path = npz(tmp_path / "v.npz", np.zeros((1 << 20, 4)))
    said = "v.npz`: compression ratio .* be at most 200"
    small(lambda: load_teacher(path), said, 8 * MIB)


def first_weight(model):
    return model.graph.initializer[0]


def in_a_branch(model):
    branch = model.graph.node.add(op_type="If").attribute.add(name="then_branch")
    return branch.g.node.add(op_type="Constant").attribute.add(name="value").t


def in_a_function(model):
    return model.functions.add().node.add().attribute.add().tensors.add()


@pytest.mark.parametrize("place", [first_weight, in_a_branch, in_a_function])
def test_an_onnx_model_opens_no_other_file(place, tmp_path, monkeypatch):
    """As HDF5's external storage did for Keras (CVE-2026-1669)."""
    onnx = pytest.importorskip("onnx")

    def open_it(*_):
        raise AssertionError("the runtime was given the model")

    weight = onnx.numpy_helper.from_array(np.ones(4, np.float32), "weight")
    graph = onnx.helper.make_graph([], "graph", [], [], [weight])
    model = onnx.helper.make_model(graph)
    check_self_contained(model.SerializeToString(), tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(1 << 20))
    tensor = place(model)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=str(secret))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr("keras_msd.export.onnx_files.new_session", open_it)
    refused(lambda: load_ids(tmp_path), "model.onnx.*in another file.*one file")
