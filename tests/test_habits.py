"""What users of Keras and of sentence-transformers write by habit works."""

import copy
import pathlib
import pickle
import pickletools
import re

import keras
import numpy as np
import pytest
from child_process import run_python

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.testing import tiny_encoder, tiny_pairs

pytestmark = pytest.mark.usefixtures("no_graphs")

TEXTS = ["The cat sleeps.", "", "Die Katze schläft auf dem Stuhl."]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return tiny_encoder(tokenizer, normalize=False, bottleneck_dim=8, num_layers=1)


def own_model(tokenizer, dim=8, **changes):
    """Return a functional model as a user would write one, its inputs in a list."""
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    mask = keras.Input((None,), dtype="int32", name="padding_mask")
    rows = changes.get("rows", tokenizer.vocabulary_size)
    words = keras.layers.Embedding(rows, dim, name="words")(ids)
    pooled = msd.layers.Pooling("mean", name="mean")(words, mask)
    output = keras.layers.Dense(dim, name="dense")(pooled)
    return keras.Model([ids, mask], changes.get("output", lambda *_: output)(words))


@pytest.fixture(scope="module")
def own(tokenizer):
    return msd.Encoder.from_model(own_model(tokenizer), tokenizer, max_length=16)


@pytest.mark.parametrize("kind", [str, np.str_, np.array])
def test_a_single_sentence_gives_one_vector(encoder, kind):
    vector = encoder.encode(kind(TEXTS[0]))
    np.testing.assert_array_equal(vector, encoder.encode(TEXTS[:1])[0])


class Table:
    """A data frame as pandas and polars have it: iterating gives names of columns."""

    columns = ("text",)
    shape = (3, 1)

    def __iter__(self):
        return iter(self.columns)


class Column:
    """A column as pandas has it: iterating gives its values, not its index."""

    shape, index = (3,), ("x", "y", "z")

    def __iter__(self):
        return iter(TEXTS)


@pytest.mark.parametrize(
    "texts",
    [
        np.array(TEXTS),
        np.array(TEXTS, object),
        tuple(TEXTS),
        iter(TEXTS),
        dict.fromkeys(TEXTS).keys(),
        Column(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_has_texts_in_an_order_is_encoded(encoder, texts):
    np.testing.assert_array_equal(encoder.encode(texts), encoder.encode(TEXTS))


NO_SENTENCES = {
    "data frame": (
        Table(),
        '.Table.. Give a list.*one column of a table: table."text".',
    ),
    "mapping": ({"a": "b"}, "dict"),
    "set": ({"a"}, "set"),
    "path": (pathlib.Path("a.txt"), "Path"),
    "a number": (3, "int"),
    "None": (["a", None], "None .NoneType. at position 1.*fill in what is missing"),
    "NaN": (["a", np.nan], "nan .float. at position 1"),
    "rows": ([{"text": "a"}], "at position 0"),
    "nested": ([["a", "b"]], "at position 0. Give one flat list"),
    "matrix": (np.array([["a"], ["b"]]), "position 0. Give one flat list of texts"),
}


@pytest.mark.parametrize("name", NO_SENTENCES)
def test_what_holds_no_list_of_sentences_is_refused(encoder, name):
    texts, message = NO_SENTENCES[name]
    teacher = msd.load_teacher("hashed-words", dim=8)
    for encode in (encoder.encode, teacher.encode):
        with pytest.raises(InputError, match=message):
            encode(texts)


def test_similarity_takes_tensors_and_single_vectors(encoder):
    vectors = encoder.encode(TEXTS)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    tensors = map(keras.ops.convert_to_tensor, (vectors, vectors[0]))
    found = encoder.similarity(*tensors)
    np.testing.assert_allclose(found, units @ units[:1].T, atol=1e-6)
    for wrong in (["a", 1], np.ones((2, 17)), np.ones((2, 0)), vectors[None]):
        with pytest.raises(InputError, match="of 16 numbers|must hold strings"):
            encoder.similarity(vectors, wrong)


@pytest.mark.parametrize(
    ("name", "value", "repair"),
    [
        ("normalize_embeddings", True, "Write `normalize=True`"),
        ("show_progress_bar", False, "Write `progress=False`"),
        ("convert_to_tensor", True, "The result is a NumPy array: convert it"),
        ("num_proc", 4, "Write `processes=4`"),
        ("batchsize", 4, "Did you mean `batch_size`"),
        ("weather", 4, "It has texts, batch_size, "),
    ],
)
def test_arguments_of_other_libraries_name_ours(encoder, name, value, repair):
    message = f"`encode` has no argument `{name}`. {re.escape(repair)}"
    with pytest.raises(InputError, match=message):
        encoder.encode(TEXTS, **{name: value})
    with pytest.raises(InputError, match="Give it first, or as `first`"):
        encoder.similarity(embeddings1=TEXTS, embeddings2=TEXTS)


@pytest.mark.parametrize("name", ["batch_size", "processes", "truncate_dim"])
def test_numbers_are_whole(encoder, name):
    with pytest.raises(InputError, match=f"`{name}` must be a whole number. Received"):
        encoder.encode(TEXTS, **{name: 8.0})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("all-MiniLM-L6-v2", "hf://sentence-transformers/all-MiniLM-L6-v2$"),
        ("https://huggingface.co/intfloat/e5/tree/main", "hf://intfloat/e5$"),
        ("hf:intfloat/e5", "hf://intfloat/e5$"),
        ("~/model", "`~` is not replaced"),
        ("tiny21", "Did you mean `tiny12`"),
        ("org/LaBSE", "a model on the hub hf://org/LaBSE$"),
        ("nowhere", "Give the path of a folder.$"),
    ],
)
def test_a_name_that_stands_for_nothing_has_a_hint(name, hint):
    with pytest.raises(InputError, match=f"The encoder `{name}` .*{hint}"):
        msd.load_encoder(name)


def test_a_stage_says_what_it_computes(encoder):
    stage = msd.stages.TeachStudent(encoder)
    with pytest.raises(InputError, match="`compile` has no argument `loss`.*`losses="):
        stage.compile("adam", loss="mse")
    with pytest.raises(InputError, match="no argument `metrics`.*ScoreCallback"):
        stage.compile(optimizer="adam", metrics=["mae"])


def test_a_teacher_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="The teacher `nowhere` .* one of default, "):
        msd.load_teacher("nowhere")
    with pytest.raises(InputError, match="The teacher `defualt`.*mean `default`"):
        msd.load_teacher("defualt")
    with pytest.raises(InputError, match="The start `nowhere` does not exist"):
        msd.distil(tiny_pairs(), tmp_path / "m", start="nowhere", progress=False)


@pytest.mark.parametrize("precision", ["int8", "uint8"])
def test_integers_are_steps_between_the_extremes(encoder, precision):
    """Half a step from the value they stand for, as each step is rounded down."""
    texts = [pair.source for pair in tiny_pairs()] + TEXTS
    vectors = encoder.encode(texts)
    codes = encoder.encode(texts, precision=precision)
    lowest = -128 if precision == "int8" else 0
    assert codes.dtype == np.dtype(precision)
    assert (codes.min(axis=0) == lowest).all() and (codes.max(axis=0) > 125).any()
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    back = low + (codes.astype(np.float64) - lowest) * (high - low) / 255
    assert ((vectors - back) > -1e-5).all()
    assert ((vectors - back) < (high - low) / 255 + 1e-5).all()
    same = msd.quantize_embeddings(vectors, precision, np.stack([low, high]))
    np.testing.assert_array_equal(same, codes)
    sample = 3 * vectors[::2]
    other = msd.quantize_embeddings(vectors, precision, calibration_embeddings=sample)
    ranges = np.stack([sample.min(axis=0), sample.max(axis=0)])
    wanted = msd.quantize_embeddings(vectors, precision, ranges)
    np.testing.assert_array_equal(other, wanted)
    halved = msd.quantize_embeddings(2 * vectors, precision, np.stack([low, high]))
    assert halved.min() == lowest and halved.max() == lowest + 255  # none wraps around


@pytest.mark.parametrize("width", [16, 5])
def test_bits_are_signs(encoder, width):
    vectors = encoder.encode(TEXTS, truncate_dim=width)
    bits = encoder.encode(TEXTS, truncate_dim=width, precision="ubinary")
    assert bits.dtype == np.uint8
    np.testing.assert_array_equal(np.unpackbits(bits, 1)[:, :width], vectors > 0)
    signed = encoder.encode(TEXTS, truncate_dim=width, precision="binary")
    np.testing.assert_array_equal(signed.astype(int) + 128, bits)


def test_what_cannot_be_quantized_is_refused(encoder):
    with pytest.raises(InputError, match="needs two embeddings.*Received: 1"):
        encoder.encode(TEXTS[0], precision="int8")
    assert encoder.encode([], precision="int8").shape == (0, 16)
    with pytest.raises(InputError, match="Did you mean `int8`"):
        encoder.encode(TEXTS, precision="int4")
    with pytest.raises(InputError, match=r"the shape \(2, 16\)"):
        msd.quantize_embeddings(encoder.encode(TEXTS), "int8", np.ones((2, 3)))


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    graded = [(1, "a", "b"), (0, "a", "c")]
    folder = tmp_path_factory.mktemp("art") / "a"
    encoder.export(folder, "onnx", sentences=TEXTS, sts=graded)
    return msd.export.load_artefact(folder)


def test_an_artefact_says_what_it_is_and_is_pickled(artefact):
    again = pickle.loads(pickle.dumps(artefact))
    np.testing.assert_array_equal(again.encode(TEXTS), artefact.encode(TEXTS))
    assert repr(artefact) == f"<Artefact `{artefact.path}`: onnx, float32, dim=16>"
    assert artefact.max_length == 32


@pytest.mark.slow
def test_several_processes_give_the_same_vectors(encoder, artefact):
    texts = [f"{pair.source} {n}" for n in range(3) for pair in tiny_pairs()]
    found = encoder.encode(texts, batch_size=1, processes=2)
    np.testing.assert_allclose(found, encoder.encode(texts), atol=1e-6)
    found = artefact.encode(texts, batch_size=1, processes=2)
    np.testing.assert_allclose(found, artefact.encode(texts), atol=1e-6)


def test_the_first_numbers_of_vectors(encoder):
    """As in sentence-transformers: cut, scaled only if asked, and then quantized."""
    whole, short = encoder.encode(TEXTS), encoder.encode(TEXTS, truncate_dim=5)
    np.testing.assert_array_equal(short, whole[:, :5])
    one = encoder.encode(TEXTS[1], truncate_dim=5)
    np.testing.assert_array_equal(one, short[1])
    scaled = encoder.encode(TEXTS, truncate_dim=5, normalize=True)
    units = short / np.linalg.norm(short, axis=1)[:, None]
    np.testing.assert_allclose(scaled, units, atol=1e-6)
    cosines = encoder.similarity(short, one)
    np.testing.assert_allclose(cosines[:, 0], units @ units[1], atol=1e-6)
    codes = encoder.encode(TEXTS, truncate_dim=5, precision="int8")
    np.testing.assert_array_equal(codes, msd.quantize_embeddings(whole[:, :5], "int8"))
    for width, message in ((17, "at most 16"), (0, "at least 1")):
        with pytest.raises(InputError, match=message):
            encoder.encode(TEXTS, truncate_dim=width)
    with pytest.raises(InputError, match="of one width.*16 and 5"):
        encoder.similarity(whole, short)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda encoder: pickle.loads(pickle.dumps(encoder))],
)
def test_an_encoder_is_copied_through_its_saved_form(encoder, again):
    other = again(encoder)
    assert other.fingerprint == encoder.fingerprint and other.config == encoder.config
    np.testing.assert_array_equal(other.encode(TEXTS), encoder.encode(TEXTS))
    other.set_weights({path: 0 * value for path, value in other.weights().items()})
    assert other.fingerprint != encoder.fingerprint  # nothing is shared


def test_a_pickle_names_nothing_but_one_function_of_ours(encoder):
    content = pickle.dumps(encoder, protocol=4)
    codes = [(code.name, value) for code, value, _ in pickletools.genops(content)]
    assert [name for name, _ in codes].count("STACK_GLOBAL") == 1
    assert {name for name, _ in codes}.isdisjoint({"GLOBAL", "INST", "OBJ", "NEWOBJ"})
    assert [value for _, value in codes if isinstance(value, str)][:2] == [
        "keras_msd.models.encoder",
        "_from_pickle",
    ]


def test_a_pickle_of_something_else_is_refused(encoder):
    make, (fields, tokenizer, weights) = encoder.__reduce__()
    with pytest.raises(InputError, match="`kind` must be one of 'unigram'"):
        make(fields, ("os.system", *tokenizer[1:]), weights)
    with pytest.raises(InputError, match="Unknown key `module`"):
        make(fields | {"module": "os"}, tokenizer, weights)


def test_a_model_of_ones_own_encodes(own, tokenizer):
    vectors = own.encode([*TEXTS, "long " * 99])
    assert vectors.shape == (4, 8) and own.dim == 8 and own.max_length == 16
    (ids,) = tokenizer.encode(TEXTS[:1], 16)
    words, kernel, bias = own.model.get_weights()
    np.testing.assert_allclose(
        vectors[0], words[ids].mean(axis=0) @ kernel + bias, atol=1e-6
    )
    same = msd.Encoder.from_model(own.model, tokenizer, max_length=16)
    other = msd.Encoder.from_model(own.model, tokenizer, max_length=8)
    assert own.fingerprint == same.fingerprint != other.fingerprint


def test_a_model_of_ones_own_teaches_learns_and_is_scored(own, tmp_path):
    teacher = msd.load_teacher(own)
    assert (teacher.dim, teacher.normalized) == (8, False)
    student = msd.Encoder.from_model(own_model(own.tokenizer), own.tokenizer)
    store = msd.data.GuideStore(teacher, tmp_path / "store")
    data = msd.data.PairBatches(
        tiny_pairs(), student, {"teacher": (store, "source")}, 8, multiple=128
    )
    goals = {"source": "teacher", "target": "teacher"}
    stage = msd.stages.Stage(student, goals=goals)
    stage.compile("adam")
    before = student.fingerprint
    stage.fit(data, verbose=0, shuffle=False)
    assert student.fingerprint != before
    rows = [(1.0, "a cat", "a cat"), (0.5, "a dog", "a cat"), (0.0, "tea", "a train")]
    assert msd.evaluate.sts(student, rows)["pairs"] == 3
    assert msd.evaluate.cost(student)["parameters"] == student.num_parameters


def test_a_model_of_ones_own_is_exported(own, tmp_path):
    graded = [(1, "a", "b"), (0, "a", "c")]
    path = own.export(tmp_path / "a", sentences=TEXTS, sts=graded)
    artefact = msd.load_encoder(path)
    np.testing.assert_allclose(artefact.encode(TEXTS), own.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    "ask",
    [
        lambda own, path: own.save(path),
        lambda own, path: own.embedding_guide(),
        lambda own, path: own.export(path, "onnx"),
        lambda own, path: own.export(path, "saved_model", quantize="int8"),
    ],
)
def test_what_needs_a_config_says_so(own, tmp_path, ask):
    with pytest.raises(InputError, match="needs an encoder built by keras-msd"):
        ask(own, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def without_mask(tokenizer):
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    return keras.Model(ids, keras.layers.Embedding(9, 4)(ids)[:, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: "model", "must be a functional Keras model. Received: str"),
        (lambda t: keras.Sequential([]), "must be a functional Keras model"),
        (without_mask, r"Received: token_ids int32 \(None, None\)"),
        (
            lambda t: own_model(t, output=lambda w: w),
            r"float32 \(None, None, 8\)\. Make",
        ),
        (lambda t: own_model(t, output=lambda w: [w[:, 0], w[:, 1]]), "one tensor of"),
        (lambda t: own_model(t, rows=9), "must accept every id below"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(tokenizer, make, message):
    with pytest.raises(InputError, match=message):
        msd.Encoder.from_model(make(tokenizer), tokenizer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    [
        "import keras_msd, keras",
        "import keras, keras_msd",
        "import keras_msd.layers, keras",  # Keras is imported by a layer
    ],
)
def test_keras_loads_our_networks_by_name(encoder, tmp_path, imports):
    encoder.model.save(tmp_path / "network.keras")
    code = f"""
import sys
{imports}
assert "keras_hub" not in sys.modules
model = keras.saving.load_model({str(tmp_path / "network.keras")!r})
print(*(type(layer).__module__ for layer in model.layers[1:]))
"""
    assert "keras_msd.layers" in run_python(code).split()


def test_lazy_names_show():
    for module, some in [
        (msd, {"Encoder", "load_encoder", "stages", "callbacks", "InputError"}),
        (msd.stages, {"TeachStudent", "Stage", "StageRecord"}),
        (msd.evaluate, {"MTEBEncoder", "callbacks", "sts"}),
    ]:
        public = {name for name in dir(module) if not name.startswith("_")}
        assert some <= public == set(module.__all__) - {"__version__"}
    names: dict[str, object] = {}
    exec("from keras_msd import *", names)
    assert names["stages"] is msd.stages and names["Encoder"] is msd.Encoder
    assert issubclass(names["callbacks"].ScoreCallback, keras.callbacks.Callback)
