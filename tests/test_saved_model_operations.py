"""A SavedModel that reaches files, a network or Python is refused before loading."""

import pytest
import tensorflow as tf
from saved_models import TEXT, letters_in_graph, save
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.checks import InputError
from keras_msd.teachers import load_teacher
from keras_msd.teachers.saved_model_operations import OUTSIDE, check_operations


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


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (reads, ["ReadFile"]),
        (writes, ["WriteFile"]),
        (prints, ["PrintV2"]),
        (calls, ["EagerPyFunc"]),
        (restores, ["RestoreV2"]),
        (deep, ["ReadFile"]),
    ],
)
def test_it_is_refused_unless_allowed(function, names, tmp_path, monkeypatch):
    folder = save(function, tmp_path / "m", TEXT)
    check_operations(folder, names)

    def load(*_):
        raise AssertionError("it was loaded")

    with monkeypatch.context() as patch:
        patch.setattr(tf.saved_model, "load", load)
        with pytest.raises(InputError, match=f"{names[0]}.*allow_operations"):
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
