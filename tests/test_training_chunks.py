"""A batch in chunks gives the gradients of the whole batch."""

import keras
import numpy as np
import pytest
from test_stages import ROWS, batch, network

from keras_msd.checks import InputError
from keras_msd.stages import AlignEmbedding, ContrastiveLearning, TeachThinDeep
from keras_msd.stages.stage import Stage


class Kept(keras.optimizers.SGD):
    """Keeps the gradients it is given and changes nothing."""

    def apply(self, grads, trainable_variables=None):
        for kept, gradient in zip(self.kept, grads, strict=True):
            kept.assign(gradient)


def thin_goals():
    x, y = batch()
    draw = np.random.default_rng(8)
    for side in ("source", "target"):
        y[f"teacher_{side}"] = draw.normal(size=(ROWS, 9)).astype("float32")
    return x, y


def thin_deep(model, **options):
    keras.utils.set_random_seed(5)  # of the dense layer
    return TeachThinDeep(model, teacher_dim=9, logit_weight=1.0, **options)


def ams(model, **options):
    none = {"feature_weight": 0, "logit_weight": 0}
    return TeachThinDeep(model, teacher_dim=9, **none, **options)


def dataset(x, y, shapeless):
    """Return one batch as tf.data, on request without any size but the widths."""
    import tensorflow as tf

    whole = tf.data.Dataset.from_tensors((x, y))

    def forget(value):
        width = value.shape[1] if value.dtype == tf.float32 else None
        shape = [None, width][: len(value.shape)]
        return tf.raw_ops.PlaceholderWithDefault(input=value, shape=shape)

    if shapeless:
        return whole.map(lambda *both: tf.nest.map_structure(forget, both))
    return whole


def recorder(stage, **options):
    """Compile a stage with an optimizer that keeps gradients, and return it."""
    optimizer = Kept(1.0)
    optimizer.kept = [keras.Variable(0 * one) for one in stage.trainable_variables]
    stage.compile(optimizer, **options)
    return optimizer


def gradients(make, chunk_size, jit_compile=None, shapeless=False, **fields):
    """Return the logs of a step, of an evaluation after it, and all gradients.

    Without `jit_compile` the step runs eagerly, which is quicker than tracing it.
    """
    data = thin_goals()
    stage = make(network(**{"normalize": True} | fields), chunk_size=chunk_size)
    mode = (
        {"run_eagerly": True} if jit_compile is None else {"jit_compile": jit_compile}
    )
    optimizer = recorder(stage, **mode)
    batches = dataset(*data, shapeless)
    logs = stage.fit(batches, shuffle=False, verbose=0).history
    logs = {name: values[0] for name, values in logs.items()}
    later = stage.evaluate(batches, verbose=0, return_dict=True)
    paths = [variable.path for variable in stage.trainable_variables]
    kept = [keras.ops.convert_to_numpy(one) for one in optimizer.kept]
    return logs, later, dict(zip(paths, kept, strict=True))


def assert_same(made, wanted, tolerance=1e-5):
    for ours, theirs in zip(made[:2], wanted[:2], strict=True):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name] == pytest.approx(theirs[name], rel=tolerance)
    assert list(made[2]) == list(wanted[2])
    for path, value in wanted[2].items():
        worst = np.abs(made[2][path] - value).max()
        assert 0 < np.abs(value).max(), path
        assert worst <= tolerance * np.abs(value).max(), (path, worst)


@pytest.mark.parametrize(
    ("make", "chunk_size"), [(ContrastiveLearning, 1), (thin_deep, 4), (thin_deep, 50)]
)
def test_gradients_are_those_of_the_whole_batch(make, chunk_size):
    """Of an encoder with a body, on both backends: test_jax.py."""
    assert_same(gradients(make, chunk_size), gradients(make, None))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_so_they_are_in_a_graph_and_under_xla(jit_compile):
    made = gradients(ams, 4, jit_compile, shapeless=not jit_compile)
    assert_same(made, gradients(ams, None))


def test_no_more_rows_than_a_chunk_pass_at_a_time(monkeypatch):
    seen = []
    both_sides = Stage.both_sides

    def watched(self, x, training):
        seen.append(len(x["source_token_ids"]))
        return both_sides(self, x, training)

    monkeypatch.setattr(Stage, "both_sides", watched)
    gradients(ams, 4)
    assert seen == [4] * 6  # two chunks in each pass of the step and in `evaluate`


def test_the_second_pass_draws_the_dropout_of_the_first():
    import tensorflow as tf

    x, y = thin_goals()

    fields = {"dropout": 0.4, "normalize": True}

    def stage():
        return ContrastiveLearning(network(**fields), chunk_size=4)

    def states(one):
        every = one.network.variables
        weights = {id(weight) for weight in one.network.weights}
        return [np.array(state) for state in every if id(state) not in weights]

    step, reference = stage(), stage()
    optimizer = recorder(step, jit_compile=False)
    reference.compile("sgd")
    assert len(states(step)) > 0
    for _ in range(2):
        before = states(step)
        step.fit(dataset(x, y, False), shuffle=False, verbose=0)
        with tf.GradientTape() as tape:  # through both chunks at once
            loss = reference.compute_loss(x, y, reference(x, training=True))
        assert any((a != b).any() for a, b in zip(before, states(step), strict=True))
        for ours, theirs in zip(states(step), states(reference), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        wanted = tape.gradient(loss, reference.trainable_variables)
        for kept, one in zip(optimizer.kept, wanted, strict=True):
            one = np.array(tf.convert_to_tensor(one))
            np.testing.assert_allclose(kept, one, atol=1e-5 * np.abs(one).max() + 1e-7)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        whole, parts = gradients(ams, None), gradients(ams, 4)
        stage = ams(network(), chunk_size=4)
    finally:
        keras.config.set_dtype_policy("float32")
    # Words in several chunks are added up in float32 instead of half precision.
    for path, value in whole[2].items():
        assert np.abs(parts[2][path] - value).max() <= 0.05 * np.abs(value).max()
    # At the default scale the first steps overflow.
    sgd = keras.optimizers.SGD(1e-4)
    optimizer = keras.optimizers.LossScaleOptimizer(sgd, initial_scale=16)
    stage.compile(optimizer, run_eagerly=True)
    batches = dataset(*thin_goals(), False)
    logs = stage.fit(batches, epochs=3, shuffle=False, verbose=0).history
    assert logs["loss"][-1] < logs["loss"][0]


def test_other_stages_frozen_layers_and_regularisers():
    def token_stage(model, **options):
        model.get_layer("embedding").word.trainable = False
        return AlignEmbedding(model, **options)

    def regular(model, **options):
        model.get_layer("projection").kernel.regularizer = keras.regularizers.L2(0.1)
        model.get_layer("embedding").trainable = False
        return ContrastiveLearning(model, **options)

    for make in (token_stage, regular):
        assert_same(gradients(make, 4), gradients(make, None))


def test_mistakes_are_named():
    with pytest.raises(InputError, match="`chunk_size` must be at least 1"):
        ams(network(), chunk_size=0)
    model = network()
    for layer, received in (
        (keras.layers.ActivityRegularization(l2=1.0), "a loss"),
        (keras.layers.BatchNormalization(), "batch_normalization.*/moving_mean"),
    ):
        users = keras.Model(model.input, layer(model.output))
        with pytest.raises(InputError, match=f"no layer may.*Received: {received}"):
            ContrastiveLearning(users, chunk_size=4)
        ContrastiveLearning(users)
    layer.trainable = False
    ContrastiveLearning(users, chunk_size=4)
    ContrastiveLearning(network(), chunk_size=4)  # positions stand still
