"""A graph with short names: the same results from a smaller file."""

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.export.saved_model.files import slim_graph


class Model(tf.Module):
    """Branches, a loop, control inputs, colocation and an argument named `n0`."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="n0")])
    def __call__(self, n0):
        tf.debugging.assert_less(tf.size(n0), 100)
        first = n0 @ self.kernel
        with tf.compat.v1.colocate_with(first):
            total = first + 1.0
        for _ in tf.range(tf.shape(n0)[0]):
            total += tf.unique(tf.reshape(total, [-1])).y[0]
        if tf.reduce_sum(total) > 0:
            total *= 2.0
        return {"total": total, "shape": tf.shape(total)}


def functions(folder):
    """Return functions in the order in which they were made, by name and count."""
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    library = model.meta_graphs[0].graph_def.library.function
    made = sorted(library, key=lambda one: count_of(one.signature.name))
    return {one.signature.name: one for one in made}


def count_of(name):
    return int(name.rpartition("_")[2])


def test_the_graph_computes_what_it_computed(tmp_path):
    model, value = Model(), np.array([[1, -2], [3, 4], [0.5, 6]], np.float32)
    tf.saved_model.save(model, str(tmp_path))
    before, size = functions(tmp_path), (tmp_path / "saved_model.pb").stat().st_size
    slim_graph(tmp_path)
    after = functions(tmp_path)
    assert size - (tmp_path / "saved_model.pb").stat().st_size > size // 10
    assert [count_of(name) for name in after] == list(range(len(before)))
    colocated = 0
    for was, name in zip(before, after, strict=True):
        assert was.rpartition("_")[0] == name.rpartition("_")[0]
        function, old = after[name], before[was].node_def
        assert [one.op for one in function.node_def] == [one.op for one in old]
        names = {one.name for one in function.node_def}
        assert len(names) == len(old) and all(len(one) < 5 for one in names)
        assert not names & {one.name for one in function.signature.input_arg}
        for node in function.node_def:
            for place in node.attr["_class"].list.s:
                assert place.removeprefix(b"loc:@").decode() in names
                colocated += 1
    assert colocated
    wanted = model(value)
    loaded = tf.saved_model.load(str(tmp_path))
    for found in (loaded(value), loaded.signatures["serving_default"](n0=value)):
        np.testing.assert_array_equal(found["total"], wanted["total"])
        np.testing.assert_array_equal(found["shape"], [3, 2])
