"""SavedModels as teachers: published shapes, and what is refused before loading."""

import inspect
import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from saved_models import TEXT, letters, letters_in_graph, save
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.checks import InputError
from keras_msd.export import export
from keras_msd.io import files
from keras_msd.load import load_teacher
from keras_msd.teachers.saved_model import OUTSIDE, check_operations
from keras_msd.teachers.teacher import published_saved_model, saved_model_fingerprint
from keras_msd.testing import tiny_encoder

GOLDEN = Path(__file__).parent / "golden"
TEXTS = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Return an encoder and its artefact."""
    encoder = tiny_encoder(num_layers=1)
    folder = tmp_path_factory.mktemp("own") / "artefact"
    rows = [(1, "a", "b"), (0, "c", "d")]
    options = {"sentences": TEXTS, "sts": rows, "max_sts_loss": 100}
    return encoder, export(encoder, folder, **options)


@pytest.mark.parametrize("form", ["artefact", "bare"])
def test_our_own_export_is_a_teacher(form, own, tmp_path):
    encoder, artefact = own
    folder = artefact
    if form == "bare":  # without its card it is anyone's SavedModel
        folder = shutil.copytree(artefact / "1", tmp_path / "plain")
    teacher = load_teacher(folder)
    wanted = encoder.encode(TEXTS)
    np.testing.assert_allclose(teacher.encode(TEXTS), wanted, atol=TOLERANCE, rtol=0)
    assert (teacher.dim, teacher.normalized) == (16, True)
    assert teacher.fingerprint == load_teacher(folder, name="again").fingerprint


TEXT_MODELS = {
    "LEALLA and USE 4": letters_in_graph,
    "USE 3": lambda texts: {"outputs": letters_in_graph(texts)},
    "float16": lambda texts: tf.cast(letters_in_graph(texts), tf.float16),
}


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_models_from_text(name, tmp_path):
    teacher = load_teacher(save(TEXT_MODELS[name], tmp_path / "use", TEXT))
    np.testing.assert_array_equal(teacher.encode(TEXTS), letters(TEXTS))
    assert (teacher.name, teacher.dim, teacher.normalized) == ("use", 3, False)
    # More than one batch, of many lengths, comes back in its order.
    many = [f"{'a' * (7 * row % 50)} {row}" for row in range(200)]
    np.testing.assert_array_equal(teacher.encode(many), letters(many))


def test_training_is_never_asked_for(tmp_path):
    def noisy(texts, training=True):
        return letters_in_graph(texts) + (1.0 if training else 0.0)

    teacher = load_teacher(save(noisy, tmp_path / "m", TEXT, training=True))
    np.testing.assert_array_equal(teacher.encode(TEXTS), letters(TEXTS))


def test_a_signature_serves_where_the_model_cannot_be_called(tmp_path):
    root = tf.Module()

    @tf.function(input_signature=[TEXT])
    def serve(inputs):
        return {"outputs": letters_in_graph(inputs)}

    @tf.function(input_signature=[TEXT])
    def question(inputs):
        return {"outputs": -letters_in_graph(inputs)}

    signatures = {"question_encoder": question, "serving_default": serve}
    tf.saved_model.save(root, str(tmp_path / "m"), signatures=signatures)
    teacher = load_teacher(tmp_path / "m")
    np.testing.assert_array_equal(teacher.encode(TEXTS), letters(TEXTS))


def test_of_several_versions_the_highest_counts(tmp_path):
    for version in ("2", "10", "9"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").touch()
    assert published_saved_model(tmp_path) == tmp_path / "10"


def test_a_fingerprint_follows_graph_variables_and_assets(tmp_path):
    folder = save(letters_in_graph, tmp_path / "a", TEXT)
    (folder / "keras_metadata.pb").write_bytes(b"x")
    seen = {load_teacher(folder).fingerprint}
    (folder / "keras_metadata.pb").write_bytes(b"y")
    assert seen == {saved_model_fingerprint(folder)}
    for place in ("assets/a.txt", "variables/variables.index", "saved_model.pb"):
        (folder / place).write_bytes(b"another")
        seen.add(saved_model_fingerprint(folder))
    assert len(seen) == 4


def test_a_checkpoint_beside_a_saved_model_comes_first(tmp_path):
    for source in ("bert/tokenizer", "bert/variant_0", "sentence/mean_normalize"):
        shutil.copytree(GOLDEN / source, tmp_path / "m", dirs_exist_ok=True)
    save(letters_in_graph, tmp_path / "m", TEXT)
    assert load_teacher(tmp_path / "m").dim == 12
    (tmp_path / "m" / "modules.json").unlink()
    assert load_teacher(tmp_path / "m").dim == 12
    (tmp_path / "m" / "config.json").unlink()
    assert load_teacher(tmp_path / "m").dim == 3


def broken(folder):
    save(letters_in_graph, folder, TEXT)
    (folder / "saved_model.pb").write_bytes(b"no model")


def image(folder):
    save(lambda x: x, folder, tf.TensorSpec([None, 8, 8, 3], tf.float32))


def no_function(folder):
    tf.saved_model.save(tf.Module(), str(folder))


def fixed_batch(folder):
    save(letters_in_graph, folder, tf.TensorSpec([1], tf.string))


def question_answering(folder):
    serve = tf.function(lambda inputs: {"outputs": letters_in_graph(inputs)})
    signatures = {"question_encoder": serve.get_concrete_function(TEXT)}
    tf.saved_model.save(tf.Module(), str(folder), signatures=signatures)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (broken, "whole SavedModel.*Take a whole copy"),
        (image, r"__call__\(TensorSpec\(shape=\(None, 8, 8, 3\).* -> TensorSpec"),
        (no_function, "nothing to call"),
        (fixed_batch, r"__call__\(TensorSpec\(shape=\(1,\), dtype=tf.string.*\(1, 3\)"),
        (
            question_answering,
            r"question_encoder\(TensorSpec\(shape=\(None,\).* -> \{'outputs'",
        ),
    ],
)
def test_what_gives_no_vectors_is_refused(make, words, tmp_path):
    make(tmp_path / "m")
    with pytest.raises(InputError, match=words):
        load_teacher(tmp_path / "m")


def reads(texts):
    content = tf.io.read_file(tf.constant("/dev/null"))
    return letters_in_graph(texts) + tf.cast(tf.strings.length(content), tf.float32)


def reads_rows(texts):
    lines = tf.data.TextLineDataset("/dev/null").batch(9)
    read = tf.data.experimental.get_single_element(lines)
    return letters_in_graph(texts) + tf.cast(tf.size(read), tf.float32)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (reads, ["ReadFile"]),
        (
            reads_rows,
            ["BatchDatasetV2", "DatasetToSingleElement", "FlatMapDataset"]
            + ["TensorSliceDataset", "TextLineDataset"],
        ),
    ],
)
def test_it_is_refused_unless_allowed(function, names, tmp_path, monkeypatch):
    folder = save(function, tmp_path / "m", TEXT)
    check_operations(folder, names)

    def load(*_):
        raise AssertionError("it was loaded")

    with monkeypatch.context() as patch:
        patch.setattr(tf.saved_model, "load", load)
        with pytest.raises(InputError, match=f"{', '.join(names)}.*allow_operations"):
            load_teacher(folder)
    if function is reads:
        assert load_teacher(folder, allow_operations=names).dim == 3
    with pytest.raises(InputError, match="must be a list"):
        load_teacher(folder, allow_operations="ReadFile")
    with pytest.raises(InputError, match="is for published SavedModels"):
        load_teacher("hashed-words", dim=2, allow_operations=["ReadFile"])


def test_what_a_saver_runs_may_be_called_by_nothing_else(tmp_path):
    """Every model can write and restore its variables; calling that is a door."""
    folder = save(letters_in_graph, tmp_path / "m", TEXT, v=tf.Variable([1.0]))
    check_operations(folder)
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    graph = model.meta_graphs[0]
    saver = graph.saver_def.save_tensor_name.partition(":")[0]
    [node] = [one for one in graph.graph_def.node if one.name == saver]
    graph.graph_def.library.function[0].node_def.add(
        name="door", op="PartitionedCall"
    ).attr["f"].CopyFrom(node.attr["f"])
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="MergeV2Checkpoints.*SaveV2"):
        check_operations(folder)


class Places(tf.Module):
    """A model whose table has the lines of a file."""

    def __init__(self, file):
        super().__init__()
        lines = tf.lookup.TextFileInitializer(
            str(file), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
        )  # fmt: skip
        self.table = tf.lookup.StaticHashTable(lines, -1)

    @tf.function(input_signature=[TEXT])
    def __call__(self, texts):
        place = self.table.lookup(texts)
        return tf.cast(place, tf.float32)[:, tf.newaxis] + letters_in_graph(texts)


def test_a_table_is_filled_from_a_file_that_is_allowed(tmp_path):
    """As StringLookup read any file for Keras (CVE-2025-12058)."""
    (tmp_path / "v.txt").write_text("b\na\n")
    tf.saved_model.save(Places(tmp_path / "v.txt"), str(tmp_path / "m"))
    table = "InitializeTableFromTextFileV2"
    with pytest.raises(InputError, match=f"operations .*: {table}.*allow_operations"):
        load_teacher(tmp_path / "m")
    teacher = load_teacher(tmp_path / "m", allow_operations=[table])
    assert teacher.encode(["a", "b"]).tolist() == [[2, 2, 2], [1, 1, 0]]


def of_tensorflow_1(folder, make):
    """Save a graph as TensorFlow 1 did: operations in the graph, not in functions."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        texts = tf.compat.v1.placeholder(tf.string, [None], "text")
        tf.compat.v1.saved_model.simple_save(
            session, str(folder), {"text": texts}, {"vectors": make(texts)}
        )
    return folder


def looks_up(texts):
    return Places("/dev/null").table.lookup(texts)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (reads, "ReadFile"),
        (looks_up, "InitializeTableFromTextFileV2"),
        (tf.function(lambda texts: tf.map_fn(reads, texts[None])[0]), "ReadFile"),
    ],
)
def test_a_graph_of_tensorflow_1(make, name, tmp_path):
    folder = of_tensorflow_1(tmp_path / "m", make)
    model = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    assert not model.meta_graphs[0].object_graph_def.nodes
    with pytest.raises(InputError, match=f"{name}.*allow_operations"):
        load_teacher(folder)
    check_operations(folder, [name])
    plain = of_tensorflow_1(tmp_path / "plain", letters_in_graph)
    assert load_teacher(plain).encode(["aé"]).tolist() == [[3, 2, 1]]


def test_a_graph_over_the_limit(tmp_path):
    path = tmp_path / "saved_model.pb"
    with open(path, "wb") as handle:
        handle.truncate(files.GRAPH.most + 1)  # takes no room on most disks
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="saved_model.pb`.*1,073,741,824"):
            check_operations(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_what_names_a_file_or_an_address_is_outside():
    """All operations of this TensorFlow, by the names of what they are given."""
    words = ("file", "path", "prefix", "address", "url", "_dir", "logdir")
    found = set()
    for name in (name for name in dir(tf.raw_ops) if name[0] != "_"):
        given = inspect.signature(getattr(tf.raw_ops, name)).parameters
        if any(word in one.lower() for one in given for word in words):
            found.add(name)
    assert len(found) > 40
    inside = {name for name in found if not OUTSIDE.fullmatch(name)}
    assert inside == {"CTCBeamSearchDecoder"}  # whose paths are of a beam
    assert OUTSIDE.fullmatch("PrintV2") and OUTSIDE.fullmatch("EagerPyFunc")
