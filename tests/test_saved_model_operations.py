"""A SavedModel that reaches files, a network or Python is refused before loading."""

import inspect
import tracemalloc

import pytest
import tensorflow as tf
from saved_models import IDS, TEXT, letters_in_graph, save, vocabulary
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd import limits
from keras_msd.checks import InputError
from keras_msd.teachers import load_teacher
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


def test_an_asset_stays_in_the_folder(tmp_path):
    (tmp_path / "v.txt").write_text("a")
    asset = tf.saved_model.Asset(str(tmp_path / "v.txt"))
    folder = save(letters_in_graph, tmp_path / "m", TEXT, asset=asset)
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    model.meta_graphs[0].asset_file_def[0].filename = "../../v.txt"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="stay in its folder"):
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


@pytest.fixture
def with_table(tmp_path):
    """A model whose table is filled from an asset, saved anew by who loaded it."""
    (tmp_path / "v.txt").write_text("b\na\n")
    tf.saved_model.save(Places(tmp_path / "v.txt"), str(tmp_path / "first"))
    tf.saved_model.save(
        tf.saved_model.load(str(tmp_path / "first")), str(tmp_path / "m")
    )
    (tmp_path / "v.txt").unlink()
    return tmp_path / "m"


def edited(folder, change):
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(model.meta_graphs[0])
    path.write_bytes(model.SerializeToString())
    return folder


def tables(graph):
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            if node.op.startswith("InitializeTableFromTextFile"):
                yield function, node


def names_a_file(graph, op="Const"):
    for function, node in tables(graph):
        file = function.node_def.add(name="file", op=op)
        file.attr["dtype"].type = tf.string.as_datatype_enum
        file.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/etc/passwd"))
        node.input[1] = "file:output:0"


def computes_a_name(graph):
    names_a_file(graph, "StringJoin")


def binds_no_asset(graph):
    objects = graph.object_graph_def
    text = len(objects.nodes)
    objects.nodes.add().constant.operation = "Const"
    for function, _ in tables(graph):
        for one in (function, *callers(graph, function)):
            bound = objects.concrete_functions[one.signature.name].bound_inputs
            kinds = [objects.nodes[it].WhichOneof("kind") for it in bound]
            bound[:] = [
                text if kind == "asset" else it
                for kind, it in zip(kinds, bound, strict=True)
            ]


def callers(graph, function):
    for one in graph.graph_def.library.function:
        for node in one.node_def:
            if node.attr["f"].func.name == function.signature.name:
                yield one


def fills_in_a_call(graph):
    """The table's function is also called, with a text as the file."""
    [(function, _)] = tables(graph)
    other = graph.graph_def.library.function[0]
    node = other.node_def.add(name="call", op="PartitionedCall")
    node.attr["f"].func.name = function.signature.name
    file = other.node_def.add(name="file", op="Const")
    node.input[:] = ["file:output:0"] * len(function.signature.input_arg)
    assert file.name == "file"


def fills_in_a_branch(graph):
    fills_in_a_call(graph)
    other = graph.graph_def.library.function[0]
    other.node_def[-2].op = "If"


def lacks_the_name(graph):
    for _, node in tables(graph):
        del node.input[1:]


def goes_round(graph):
    for function, node in tables(graph):
        function.node_def.add(name="a", op="Identity").input[:] = ["b:output:0"]
        function.node_def.add(name="b", op="Identity").input[:] = ["a:output:0"]
        node.input[1] = "a:output:0"


def passes_the_name_on(graph):
    for function, node in tables(graph):
        file = function.node_def.add(name="file", op="Identity")
        file.attr["T"].type = tf.string.as_datatype_enum
        file.input[:], node.input[1] = [node.input[1]], "file:output:0"


@pytest.mark.parametrize("saved", ["first", "m"])
def test_a_table_is_filled_from_an_asset(saved, with_table):
    folder = with_table.with_name(saved)
    check_operations(folder)
    assert load_teacher(folder).encode(["a", "b"]).tolist() == [[2, 2, 2], [1, 1, 0]]
    check_operations(edited(folder, passes_the_name_on))
    assert load_teacher(folder).encode(["a", "b"]).tolist() == [[2, 2, 2], [1, 1, 0]]


@pytest.mark.parametrize("saved", ["first", "m"])
@pytest.mark.parametrize(
    "change",
    [names_a_file, computes_a_name, binds_no_asset, fills_in_a_call]
    + [fills_in_a_branch, lacks_the_name, goes_round],
)
def test_no_table_is_filled_from_another_file(saved, change, with_table):
    """As StringLookup did for Keras (CVE-2025-12058)."""
    folder = edited(with_table.with_name(saved), change)
    table = "InitializeTableFromTextFileV2"
    with pytest.raises(InputError, match=f"operations .*: {table}.*allow_operations"):
        load_teacher(folder)
    check_operations(folder, [table])


def test_an_asset_has_no_other_path(with_table):
    """TensorFlow would set what is inside as attributes of the asset, `_path` too."""

    def change(graph):
        [asset] = [it for it in graph.object_graph_def.nodes if it.HasField("asset")]
        asset.children.add(node_id=0, local_name="_path")

    with pytest.raises(InputError, match="asset of .* must be one file"):
        load_teacher(edited(with_table, change))


def test_a_vocabulary_is_an_asset(tmp_path):
    """What has a path as any attribute is no file of the model."""
    (tmp_path / "v.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na")

    def apply(inputs):
        ids, mask, types = inputs
        rows = tf.reduce_sum(ids * mask + types, axis=1, keepdims=True)
        return {"default": tf.cast(rows, tf.float32) * tf.ones([1, 3])}

    named = vocabulary(tmp_path / "v.txt", lowercase=True)
    ids = [tf.TensorSpec([None, None], tf.int32, name=name) for name in IDS]
    assert load_teacher(save(apply, tmp_path / "m", ids, **named)).dim == 3
    named["vocab_file"] = tf.Module()
    named["vocab_file"].asset_path = tf.Variable(str(tmp_path / "v.txt"))
    folder = save(apply, tmp_path / "other", ids, **named)
    with pytest.raises(InputError, match="must map a string"):
        load_teacher(folder)


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
    tables = "LookupTableFindV2 InitializeTableFromTextFileV2 TensorArrayReadV3"
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
    tables = {"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"}
    assert inside == tables | {"CTCBeamSearchDecoder"}  # whose paths are of a beam
