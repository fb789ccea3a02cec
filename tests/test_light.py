"""Encoders without Keras and TensorFlow, and the library without tensorflow-text."""

import functools
import shutil
from pathlib import Path

import numpy as np
import pytest
from child_process import ROOT, run_python
from tokenizer_texts import made_texts

from keras_msd import light
from keras_msd.arrays import pad_batch
from keras_msd.checkpoints import packaged
from keras_msd.io.files import read_table
from keras_msd.light import LightEncoder
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

BAG = {"num_layers": 0, "embedding_layer_norm": False, "pooling": "mean"}


def bag(tokenizer, second_position=0.0, **fields):
    """Return a bag of words in which types and other positions add nothing."""
    encoder = tiny_encoder(tokenizer, **BAG | fields)
    values = encoder.weights()
    for name in ("embedding/position", "embedding/type"):
        values[name] = np.zeros_like(values[name])
    values["embedding/position"][1] = second_position
    encoder.set_weights(values)
    return encoder


def by_network(encoder, texts):
    """Return the vectors of the Keras model on padded batches."""
    vectors = []
    for ids in encoder.tokenizer.encode(texts, encoder.max_length):
        batch = pad_batch([ids], encoder.tokenizer.pad_id, encoder.max_length)
        vectors.append(np.asarray(encoder.model(batch))[0])
    return np.array(vectors)


@pytest.mark.parametrize(
    ("quantize", "fields"),
    [
        (None, {}),
        ("int8", {"normalize": False}),
        ("int8", {"hidden_dim": 24, "projection_dim": 40, "projection_bias": False}),
        (None, {"bottleneck_dim": 8, "projection_dim": 12, "normalize": False}),
    ],
)
def test_a_bag_of_words_is_what_its_network_gives(
    tokenizer, quantize, fields, tmp_path
):
    from keras_msd import load_encoder

    bag(tokenizer, **fields).save(tmp_path / "encoder", quantize=quantize)
    encoder = load_encoder(tmp_path / "encoder")
    texts = made_texts(60) + ["a " * 200]
    vectors = encoder.encode(texts)
    assert encoder._bag_of_words() is not None
    np.testing.assert_allclose(vectors, by_network(encoder, texts), atol=2e-6)
    small = LightEncoder(tmp_path / "encoder")
    np.testing.assert_array_equal(small.encode(texts), vectors)
    np.testing.assert_array_equal(small.encode(texts[0]), encoder.encode(texts[0]))
    assert small.encode([]).shape == (0, encoder.dim) == encoder.encode([]).shape
    short = (it.encode(texts, truncate_dim=5) for it in (small, encoder))
    np.testing.assert_allclose(*short, atol=1e-6)


def test_what_is_beside_a_sentence_changes_nothing(tokenizer):
    encoder = bag(tokenizer, projection_dim=None)
    texts = made_texts(300)
    alone = np.concatenate([encoder.encode([text]) for text in texts[:40]])
    np.testing.assert_array_equal(encoder.encode(texts)[:40], alone)


@pytest.mark.parametrize(
    "fields",
    [
        {"embedding_layer_norm": True},
        {"pooling": "max"},
        {"projection_dim": 8, "projection_activation": "tanh"},
        {"num_layers": 1},
        {"second_position": 1.0},
    ],
)
def test_other_encoders_are_run_by_keras(tokenizer, fields, tmp_path):
    encoder = bag(tokenizer, **fields)
    assert encoder._bag_of_words() is None
    encoder.save(tmp_path / "encoder")
    wrong = "network.onnx` is missing" if "num_layers" in fields else "more than a bag"
    with pytest.raises(ValueError, match=wrong):
        LightEncoder(tmp_path / "encoder")
    texts = ["The cat sleeps.", "", "Die Katze"]
    known = by_network(encoder, texts)
    np.testing.assert_allclose(encoder.encode(texts), known, atol=2e-6)


def test_what_is_no_text_is_refused(tokenizer, tmp_path):
    bag(tokenizer).save(tmp_path / "encoder")
    small = LightEncoder(tmp_path / "encoder")
    with pytest.raises(ValueError, match="must hold strings. Received: 5"):
        small.encode(["a", 5])
    with pytest.raises(ValueError, match="truncate_dim"):
        small.encode("a", truncate_dim=small.dim + 1)


def test_prompts_need_the_library(tokenizer, tmp_path):
    bag(tokenizer, prompts={"query": "query: "}).save(tmp_path / "encoder")
    with pytest.raises(ValueError, match="prompts of its own: it needs keras-msd"):
        LightEncoder(tmp_path / "encoder")


HEAVY = ("keras", "tensorflow", "tensorflow_text", "jax", "scipy", "safetensors")
HEAVY += ("onnx",)


def package_of(name):
    """Return the module of a packaged encoder and its folder."""
    module = read_table(packaged.TABLE)[name]["module"]
    folder = ROOT / "packages" / name / module
    if not (folder / "encoder").is_dir():
        pytest.skip("has no encoder yet")
    return module, folder


@pytest.mark.parametrize("name", read_table(packaged.TABLE))
def test_a_package_has_the_code_of_the_library(name):
    _, folder = package_of(name)
    assert (folder / "light.py").read_bytes() == Path(light.__file__).read_bytes()


# test_checkpoints_packaged.py packages small layers, too, and embeds with them.
@pytest.mark.parametrize(
    "name",
    ["tiny12", "mini12", pytest.param("small12", marks=pytest.mark.slow)],
)
def test_a_package_is_whole_without_the_library(name, tmp_path):
    module, folder = package_of(name)
    shutil.copytree(folder, tmp_path / module)
    texts = made_texts(20)
    np.save(tmp_path / "texts.npy", texts)
    code = (
        "sys.path[:] = ['.', *(p for p in sys.path if p and 'msd' not in p)]\n"
        "import numpy as np\n"
        f"from {module} import load\n"
        "np.save('vectors.npy', load().encode(np.load('texts.npy').tolist()))\n"
    )
    without = (*HEAVY, "keras_msd", "tokenizers")
    run_python(code, without=without, cwd=tmp_path)
    vectors = np.load(tmp_path / "vectors.npy")
    from keras_msd.models.encoder import load_saved

    expected = load_saved(folder / "encoder").encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["tiny12", "mini12", "small12"])
def test_commands_embed_and_search_without_keras(name, tmp_path):
    (tmp_path / "lines.txt").write_text("The cat sleeps.\nDer Hund bellt.\n")
    if not packaged.is_installed(name):
        pytest.skip(f"needs the package of {name}")
    if name != "tiny12":
        pytest.importorskip("onnxruntime")
    code = "from keras_msd.cli import main\nsys.argv[0] = 'keras-msd'\nmain()\n"
    words = ("search", name, "a barking dog", "lines.txt", "--top", "1")
    without = ("keras", "tensorflow", "tensorflow_text", "jax")
    light = functools.partial(run_python, without=without, cwd=tmp_path)
    assert "Der Hund" in light(code, *words)
    assert '"dim": 384' in light(code, "embed", name, "A", "--json")
    light(f"import keras_msd as msd\nmsd.load_encoder({name!r}).encode(['A cat.'])")


WITHOUT_TEXT = """
import numpy as np
import keras_msd as msd

tokenizer = msd.testing.tiny_tokenizer()
encoder = msd.testing.tiny_encoder(tokenizer)
teacher = msd.load_teacher("hashed-words", dim=16)
store = msd.data.GuideStore(teacher, "store")
pairs = msd.testing.tiny_pairs()
dataset = msd.data.PairBatches(
    pairs, encoder, guides={"teacher": (store, "source")}, batch_size=4, epochs=1
)
stage = msd.stages.TeachAssistant(encoder)
stage.compile(optimizer=msd.training.make_optimizer(learning_rate=1e-3, steps=2))
before = encoder.encode(["A cat."])
stage.fit(dataset, epochs=1, shuffle=False, verbose=0)
assert np.abs(encoder.encode(["A cat."]) - before).max() > 0
encoder.save("encoder")
assert msd.load_encoder("encoder").fingerprint == encoder.fingerprint
encoder.export("litert", format="litert")
assert msd.load_encoder("litert").encode(["A cat."]).shape == (1, encoder.dim)
for use in (
    lambda: encoder.export("saved", format="saved_model"),
    lambda: msd.tokenizers.GraphTokenizer(tokenizer, 8),
    lambda: msd.load_teacher("model").encode(["A cat."]),
):
    try:
        use()
    except msd.InputError as error:
        assert "needs the package tensorflow-text" in str(error), error
    else:
        raise AssertionError(use)
"""


@pytest.mark.slow
def test_only_text_in_graphs_needs_tensorflow_text(tokenizer, tmp_path):
    pytest.importorskip("ai_edge_litert")
    tiny_encoder(tokenizer).export(tmp_path / "whole", format="saved_model")
    shutil.copytree(tmp_path / "whole" / "1", tmp_path / "model")
    run_python(WITHOUT_TEXT, without=["tensorflow_text"], cwd=tmp_path)
