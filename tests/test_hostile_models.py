"""Hostile tokenizers, checkpoints, encoders, vectors: refused before they cost much."""

import json
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_msd.checkpoints.checkpoint import load_checkpoint
from keras_msd.checkpoints.weights import read_checkpoint
from keras_msd.checks import InputError
from keras_msd.export import export, load_artefact
from keras_msd.export.onnx_files import check_self_contained, load_ids
from keras_msd.io.files import VOCABULARY, add_seal, read_json, write_json
from keras_msd.io.tensors import TensorFile
from keras_msd.load import load_teacher
from keras_msd.models.encoder import load_saved
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

pytestmark = pytest.mark.usefixtures("no_graphs")

GOLDEN = Path(__file__).parent / "golden"
PIECES = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]


def refused(read, match):
    with pytest.raises(InputError, match=f"(?s){match}") as caught:
        read()
    return str(caught.value)


def table(pieces):
    return {piece: number for number, piece in enumerate(pieces)}


def wordpiece_json(folder, **changes):
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": table(BERT)}
    model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    content = {"version": "1.0", "added_tokens": [], "model": model | changes}
    write_json(folder / "tokenizer.json", content)
    return folder


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**40, -1, 7.5])
def test_ids_are_compared_before_a_row_is_kept_for_each(number, tmp_path):
    wordpiece_json(tmp_path, vocab=table(BERT) | {"far": number})
    refused(lambda: read_checkpoint_tokenizer(tmp_path), "tokenizer.json")


def test_an_unknown_token_that_the_model_lacks(tmp_path):
    wordpiece_json(tmp_path, unk_token="[GONE]")
    refused(lambda: read_checkpoint_tokenizer(tmp_path), "Missing .UNK. token")


@pytest.mark.parametrize("part", [{"strip": 1}, "Bert", 5])
def test_a_normalizer_of_no_kind(part, tmp_path):
    wordpiece_json(tmp_path)
    content = read_json(tmp_path / "tokenizer.json") | {"normalizer": part}
    write_json(tmp_path / "tokenizer.json", content)
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": True})
    refused(lambda: read_checkpoint_tokenizer(tmp_path), "tokenizer.json")


@pytest.mark.parametrize("prefix", ["é", "##"])
def test_merges_that_panic(prefix, tmp_path):
    model = {"type": "BPE", "vocab": table([*PIECES, "é"]), "merges": [["a", "é"]]}
    model |= {"continuing_subword_prefix": prefix, "unk_token": "<unk>"}
    model["vocab"]["aé"] = 8
    model["merges"] = [["a", "é"], ["é", "a"], ["a", "b"]]
    write_json(tmp_path / "tokenizer.json", {"model": model, "added_tokens": []})
    refused(lambda: read_checkpoint_tokenizer(tmp_path), "tokenizer.json")


@pytest.mark.parametrize("kind", [["unigram"], {"a": 1}, 5, None])
def test_a_kind_that_is_no_name(kind, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {"kind": kind})
    refused(lambda: load_tokenizer(tmp_path), "tokenizer_config.json.*kind")


def test_pieces_that_are_not_utf8(tokenizer):
    whole = tokenizer.definition
    model = whole.replace("▁".encode(), b"\xff\x96\x81")
    assert model != whole
    refused(lambda: SentencePieceTokenizer(model), "SentencePiece")


def sparse(path, size):
    """A file of zeros that takes no room on most disks."""
    with open(path, "wb") as handle:
        handle.truncate(size)


def unread(monkeypatch, path):
    """Only what its entry in the folder says may be asked of `path`."""

    def refuse(read):
        def wrapped(self, *words, **named):
            assert Path(self) != path, "it was read"
            return read(self, *words, **named)

        return wrapped

    for name in ("open", "read_bytes", "read_text"):
        monkeypatch.setattr(Path, name, refuse(getattr(Path, name)))


def test_a_vocabulary_over_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    sparse(path, VOCABULARY.most + 1)
    unread(monkeypatch, path)
    said = (
        "bytes of a vocabulary may be at most 33,554,432. Received: 33,554,433. [A-Z]"
    )
    refused(lambda: read_checkpoint_tokenizer(tmp_path), f"{path.name}`: {said}")


def test_a_tokenizer_of_ours_over_the_limit(tokenizer, tmp_path, monkeypatch):
    tokenizer.save(tmp_path)
    [path] = [it for it in tmp_path.iterdir() if it.name != "tokenizer_config.json"]
    sparse(path, VOCABULARY.most + 1)
    unread(monkeypatch, path)
    refused(lambda: load_tokenizer(tmp_path), f"{path.name}`: bytes of a vocabulary")


def header(path, tensors, length=None):
    text = json.dumps(tensors).encode()
    size = max((t["data_offsets"][1] for t in tensors.values()), default=0)
    with open(path, "wb") as handle:
        handle.write(struct.pack("<Q", length or len(text)) + text)
        handle.truncate(8 + len(text) + size)


CONFIG = {
    "model_type": "bert", "vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "type_vocab_size": 2,
    "max_position_embeddings": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"num_hidden_layers": 10**6}, "num_hidden_layers.*128"),
        ({"hidden_size": 10**12, "num_attention_heads": 7}, "config.json.*must divide"),
        ({"hidden_act": ["gelu"]}, "config.json.*hidden_act"),
        ({"model_type": ["bert"]}, "model_type"),
    ],
)
def test_settings_of_a_checkpoint(changes, match, tmp_path):
    write_json(tmp_path / "config.json", CONFIG | changes)
    header(tmp_path / "model.safetensors", {})
    refused(lambda: read_checkpoint(tmp_path), match)


def test_a_long_header(tmp_path):
    write_json(tmp_path / "config.json", CONFIG)
    header(tmp_path / "model.safetensors", {}, length=2**40)
    refused(lambda: read_checkpoint(tmp_path), "header")


@pytest.fixture
def saved(tmp_path):
    encoder = tiny_encoder(num_layers=1)
    encoder.save(tmp_path / "e")
    fields = encoder.config.model_dump()
    return tmp_path / "e", load_file(tmp_path / "e" / "weights.safetensors"), fields


def unbuilt(monkeypatch):
    def build(*_):
        raise AssertionError("the network was built")

    monkeypatch.setattr("keras_msd.models.encoder.build_model", build)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"vocabulary_size": 10**9}, "embedding/word.*1000000000"),
        ({"repeats": 10**6}, "layers.*128"),
        ({"num_layers": 10**6}, "layers.*128"),
        ({"num_layers": 2}, "lacks.*block_1"),
        ({"hidden_dim": 10**12, "num_heads": 1}, "shape"),
        ({"projection_dim": 10**9}, "projection"),
        ({"max_positions": 10**9}, "embedding/position"),
        ({"layer_norm_epsilon": float("inf")}, "layer_norm_epsilon"),
        ({"pad_id": 10**9}, "pad_id"),
        ({"dropout": float("nan")}, "dropout"),
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
        (lambda a: np.full(a.shape, 1e300), "finite"),
        (lambda a: a.astype(np.int32), "F32"),
        (lambda a: a.astype(np.complex64), "F32"),
        (lambda a: a[:-1], "shape"),
    ],
)
def test_weights_of_an_encoder(changed, match, saved):
    folder, weights, _ = saved
    weights["embedding/word"] = changed(weights["embedding/word"])
    save_file(weights, folder / "weights.safetensors")
    refused(lambda: load_saved(folder), match)


def test_weights_in_eight_bits(saved):
    folder, weights, _ = saved
    tensors, place = {}, 0
    for path, array in weights.items():
        end = place + array.size
        about = {"dtype": "F8_E4M3", "shape": array.shape, "data_offsets": [place, end]}
        tensors[path], place = about, end
    header(folder / "weights.safetensors", tensors)
    refused(lambda: load_saved(folder), "F8_E4M3")


def test_unknown_weights_are_not_read(saved, monkeypatch):
    def read(*_):
        raise AssertionError("a tensor was read before all were known")

    folder, weights, _ = saved
    monkeypatch.setattr(TensorFile, "read", read)
    weights["other"] = np.zeros(1)
    save_file(weights, folder / "weights.safetensors")
    refused(lambda: load_saved(folder), "other")


@pytest.mark.parametrize(
    "kind", ["os.Transformer", "sentence_transformers.x.Transformer", "Transformer"]
)
def test_module_types_are_known_whole(kind, tmp_path):
    entries = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    pooling = {"type": "sentence_transformers.models.Pooling", "path": "1"}
    write_json(tmp_path / "modules.json", [*entries, pooling])
    refused(lambda: load_checkpoint(tmp_path), "type.*Received: ")


@pytest.mark.parametrize("place", ["a" * 300, "é" * 200, "a\0b", "../a", 5])
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
    teach = {"a": vectors[0], "b": vectors[1]}
    calls = iter([teach])
    refused(lambda: load_teacher(lambda t: [*next(calls).values()], name="f"), match)


def npy(shape, data=b"", kind="<f4"):
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def archive(path, data, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("vectors.npy", data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        npy((1 << 32, 1)),
        npy((1 << 62, 4)),
        npy((-1, 4)),
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 9000,
        b"\x93NUMPY\x01\x00\xff\xff" + b"-" * 9000,
        npy((1,), bytes(8), "|O"),
        bytes(64 << 20),
        npy((16 << 20,), bytes(64 << 20)),
    ],
    ids=range(8),
)
def test_arrays_larger_than_their_file(data, tmp_path):
    refused(lambda: load_teacher(archive(tmp_path / "v.npz", data)), "v.npz")


def test_vectors_that_unpack_to_much_more(tmp_path, monkeypatch):
    def load(*_, **__):
        raise AssertionError("it was read")

    path = npz(tmp_path / "v.npz", np.zeros((1 << 20, 4)))
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", load)
    refused(lambda: load_teacher(path), "v.npz`: compression ratio .* be at most 200")


def test_damaged_compression(tmp_path):
    path = npz(tmp_path / "v.npz", np.eye(2))
    data = bytearray(path.read_bytes())
    data[60:80] = b"\xff" * 20
    path.write_bytes(data)
    refused(lambda: load_teacher(path), "v.npz")


@pytest.mark.parametrize("kind", [14, 97])
def test_unknown_compression(kind, tmp_path):
    path = archive(tmp_path / "v.npz", npy((1,), bytes(4)), zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[8] = data[data.index(b"PK\1\2") + 10] = kind
    path.write_bytes(data)
    refused(lambda: load_teacher(path), "v.npz")


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory):
    encoder, rows = tiny_encoder(num_layers=1), [(1, "a", "b"), (0, "a", "c")]
    folder = tmp_path_factory.mktemp("artefacts")
    options = {"sentences": ["A cat."], "sts": rows, "max_sts_loss": 200}
    for name in ("onnx", "litert"):
        export(encoder, folder / name, name, **options)
    return folder


def test_metadata_of_onnx_that_is_not_utf8(artefacts, tmp_path):
    content = (artefacts / "onnx" / "model.onnx").read_bytes()
    damaged = content.replace(b'"kind":"unigram"', b'"kind":"unigra\xff"')
    assert damaged != content
    (tmp_path / "model.onnx").write_bytes(damaged)
    refused(lambda: load_ids(tmp_path), "model.onnx.*UTF-8")


def elsewhere(tensor, path):
    import onnx

    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=str(path))


def first_weight(model):
    return model.graph.initializer[0]


def in_a_branch(model):
    branch = model.graph.node.add(op_type="If").attribute.add(name="then_branch")
    return branch.g.node.add(op_type="Constant").attribute.add(name="value").t


def in_a_function(model):
    return model.functions.add().node.add().attribute.add().tensors.add()


@pytest.mark.parametrize("place", [first_weight, in_a_branch, in_a_function])
def test_an_onnx_model_opens_no_other_file(place, artefacts, tmp_path, monkeypatch):
    """As HDF5's external storage did for Keras (CVE-2026-1669)."""
    import onnx

    def open_it(*_):
        raise AssertionError("the runtime was given the model")

    content = (artefacts / "onnx" / "model.onnx").read_bytes()
    check_self_contained(content, tmp_path)
    model = onnx.load_from_string(content)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(1 << 20))
    elsewhere(place(model), secret)
    changed = model.SerializeToString()
    (tmp_path / "model.onnx").write_bytes(changed)
    monkeypatch.setattr("keras_msd.export.onnx_files.new_session", open_it)
    refused(lambda: load_ids(tmp_path), "model.onnx.*in another file.*one file")


@pytest.mark.parametrize("content", [b"\x3a\xff", b"\xff" * 99, b"\x3b", b"\x3a\x05ab"])
def test_what_is_no_protocol_buffer(content, tmp_path):
    refused(
        lambda: check_self_contained(content, tmp_path / "m"), "m` is no whole ONNX"
    )


def test_an_unknown_format_is_refused_with_its_card(artefacts, tmp_path):
    folder = shutil.copytree(artefacts / "onnx", tmp_path / "a")
    card = json.loads((folder / "card.json").read_text())
    write_json(folder / "card.json", card | {"format": "x" * 9999})
    said = refused(lambda: load_artefact(folder), "card.json`: `format` must be one of")
    assert len(said) < 400


@pytest.mark.parametrize("name", [{"a": 1}, ["query"], 5, 1.5])
def test_a_prompt_that_no_text_names(name, tmp_path):
    """Found by benchmarks/fuzz.py: it was looked up as it came."""
    folder = shutil.copytree(GOLDEN / "sentence" / "cls_tanh", tmp_path / "c")
    shutil.copytree(GOLDEN / "xlm-roberta" / "variant_0", folder, dirs_exist_ok=True)
    shutil.copytree(GOLDEN / "xlm-roberta" / "tokenizer", folder, dirs_exist_ok=True)
    path = folder / "config_sentence_transformers.json"
    settings = {"prompts": {"query": "q: "}, "default_prompt_name": name}
    write_json(path, settings)
    refused(lambda: load_checkpoint(folder), "default_prompt_name")
