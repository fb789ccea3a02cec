"""A SavedModel that reaches files, a network or Python is refused before loading."""

import inspect
import tracemalloc

import pytest
import tensorflow as tf
from saved_models import TEXT, letters_in_graph, save
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.checks import InputError
from keras_msd.io import limits
from keras_msd.load import load_teacher
from keras_msd.teachers.saved_model import OUTSIDE, check_operations


def reads(texts):
    content = tf.io.read_file(tf.constant("/dev/null"))
    return letters_in_graph(texts) + tf.cast(tf.strings.length(content), tf.float32)


def writes(texts):
    with tf.control_dependencies([tf.io.write_file("leak", texts[0])]):
        return letters_in_graph(texts)


def prints(texts):
    tf.print("x", output_stream="file://leak")
    return letters_in_graph(texts)


def calls(texts):
    return tf.ensure_shape(
        tf.py_function(lambda x: tf.zeros([2, 3]), [texts], tf.float32), [None, 3]
    )


def restores(texts):
    [value] = tf.raw_ops.RestoreV2(
        prefix="x", tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]
    )
    return letters_in_graph(texts) + value


def deep(texts):
    return tf.cond(tf.size(texts) > 0, lambda: reads(texts), lambda: reads(texts))


def reads_rows(texts):
    lines = tf.data.TextLineDataset("/dev/null").batch(9)
    read = tf.data.experimental.get_single_element(lines)
    return letters_in_graph(texts) + tf.cast(tf.size(read), tf.float32)


def asks_a_server(texts):
    same = tf.function(lambda x: x, input_signature=[tf.TensorSpec([], tf.int64)])
    rows = tf.raw_ops.DataServiceDatasetV4(
        dataset_id="1", processing_mode="", address="127.0.0.1:9", protocol="grpc",
        job_name="", consumer_index=0, num_consumers=1, max_outstanding_requests=1,
        iteration_counter=tf.raw_ops.DummyIterationCounter(), output_types=[tf.int64],
        output_shapes=[[]], uncompress_fn=same.get_concrete_function(),
        data_transfer_protocol="", target_workers="AUTO",
        cross_trainer_cache_options="",
    )  # fmt: skip
    read = tf.raw_ops.DatasetCardinality(input_dataset=rows)
    return letters_in_graph(texts) + tf.cast(read, tf.float32)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (reads, ["ReadFile"]),
        (writes, ["WriteFile"]),
        (prints, ["PrintV2"]),
        (calls, ["EagerPyFunc"]),
        (restores, ["RestoreV2"]),
        (deep, ["ReadFile"]),
        (
            reads_rows,
            ["BatchDatasetV2", "DatasetToSingleElement", "FlatMapDataset"]
            + ["TensorSliceDataset", "TextLineDataset"],
        ),
        (asks_a_server, ["DataServiceDatasetV4", "DatasetCardinality"]),
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
        (writes, "WriteFile"),
        (tf.function(reads), "ReadFile"),
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
        handle.truncate(limits.GRAPH.most + 1)  # takes no room on most disks
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="saved_model.pb`.*1,073,741,824"):
            check_operations(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_damage_is_named(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 99)
    with pytest.raises(InputError, match="whole SavedModel"):
        check_operations(tmp_path)


def test_what_computes_is_no_outside():
    names = "MatMul StatefulPartitionedCall VarHandleOp SentencepieceOp AssertV2"
    tables = "LookupTableFindV2 TensorArrayReadV3"
    more = "TFText>FastWordpieceTokenizeWithOffsets ReadVariableOp StringSplitV2"
    for name in f"{names} {tables} {more}".split():
        assert not OUTSIDE.fullmatch(name), name


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
