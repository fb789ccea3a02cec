"""LEALLA's stage: its equation, its three ways to meet the teacher, its errors."""

import keras
import numpy as np
import pytest
from test_losses import cosines, ranking
from test_stages import ROWS, batch, network, terms_of, vectors

from keras_msd.checks import InputError
from keras_msd.load import load_encoder
from keras_msd.models.student import merge_projection
from keras_msd.stages import TeachThinDeep
from keras_msd.testing import run_stage_test, tiny_encoder

WIDE = 9  # of the teacher
SIDES = ("source", "target")


def data():
    x, y = batch()
    draw = np.random.default_rng(8)
    goals = {
        f"teacher_{side}": draw.normal(size=(ROWS, WIDE)).astype("float32")
        for side in SIDES
    }
    return x, goals


def wide_encoder(**fields):
    keras.utils.set_random_seed(3)
    fields = {"projection_dim": WIDE, "hidden_dim": 8, "dropout": 0.0} | fields
    return tiny_encoder(bottleneck_dim=4, num_layers=0, **fields)


def stage(encoder=None, **options):
    keras.utils.set_random_seed(5)
    encoder = encoder or network()
    return TeachThinDeep(encoder, **{"teacher_dim": WIDE} | options)


def reduction(width=6):
    return np.random.default_rng(9).normal(size=(WIDE, width)).astype("float32")


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def ams_by_hand(source, target, group):
    same = (group[:, None] == group) & ~np.eye(ROWS, dtype=bool)
    return ranking(0.3, 100, same, cosines(source, target)).mean()


def logit_by_hand(y, source, target):
    teacher = unit(y["teacher_source"]) @ unit(y["teacher_target"]).T
    return np.mean((teacher - unit(source) @ unit(target).T) ** 2)


def feature_by_hand(goals, made):
    return sum(np.mean((a - b) ** 2) for a, b in zip(goals, made, strict=True))


def test_stage():
    def make():
        return stage(network(), feature_weight=10.0)

    run_stage_test(make, *data(), heads=2)


def test_equation_5_with_a_dense_layer():
    (x, y), model = data(), network()
    made = stage(model)
    assert made.term_weights == {"ams": 1, "feature": 1e3, "logit": 1e-2}
    terms = terms_of(made, x, y)
    source, target = vectors(model, x)
    assert terms["ams"] == pytest.approx(
        ams_by_hand(source, target, x["group"]), rel=1e-4
    )
    assert terms["logit"] == pytest.approx(logit_by_hand(y, source, target), rel=1e-4)
    kernel, bias = (keras.ops.convert_to_numpy(w) for w in made.dense.weights)
    assert kernel.shape == (6, WIDE) and bias.shape == (WIDE,)
    goals = y["teacher_source"], y["teacher_target"]
    wanted = feature_by_hand(goals, [side @ kernel + bias for side in (source, target)])
    assert terms["feature"] == pytest.approx(wanted, rel=1e-5)
    summed = terms_of(stage(model, dims="sum"), x, y)
    assert summed["feature"] == pytest.approx(WIDE * wanted, rel=1e-5)


def test_duplicate_lines_are_negatives_only_in_the_literal_equation():
    (x, y), model = data(), network()
    assert x["group"][4] == x["group"][0]
    apart = np.arange(ROWS)
    literal = terms_of(stage(model, mask_duplicates=False), x, y)["ams"]
    wanted = ams_by_hand(*vectors(model, x), apart)
    assert literal == pytest.approx(wanted, rel=1e-4)
    assert abs(literal - terms_of(stage(model), x, y)["ams"]) > 1e-3
    del x["group"]
    assert terms_of(stage(model, mask_duplicates=False), x, y)["ams"] == literal
    with pytest.raises(InputError, match="must contain `group`"):
        terms_of(stage(model), x, y)


def test_synchronized_reduces_the_teacher():
    (x, y), model, matrix = data(), network(), reduction()
    made = stage(model, feature="synchronized", reduction=matrix)
    assert len(made.weights) == len(model.weights)
    goals = [unit(y[f"teacher_{side}"] @ matrix) for side in SIDES]
    wanted = feature_by_hand(goals, vectors(model, x))
    assert terms_of(made, x, y)["feature"] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
def test_distillation_first_trains_what_is_merged_afterwards(normalize, tmp_path):
    (x, y), encoder = data(), wide_encoder(normalize=normalize)
    made = stage(encoder, feature="distillation_first")
    made.compile(keras.optimizers.SGD(1e-3), run_eagerly=True)
    made.fit(x, y, batch_size=ROWS, verbose=0)
    wide = vectors(encoder.model, x)
    kernel = keras.ops.convert_to_numpy(made.dense.kernel)
    terms = terms_of(made, x, y)
    goals = y["teacher_source"], y["teacher_target"]
    assert terms["feature"] == pytest.approx(feature_by_hand(goals, wide), rel=1e-5)
    final = [side @ kernel for side in wide]
    assert terms["logit"] == pytest.approx(logit_by_hand(y, *final), rel=1e-4)
    assert terms["ams"] == pytest.approx(ams_by_hand(*final, x["group"]), rel=1e-4)
    student = made.trained_encoder()
    assert student.dim == 8 and student.num_parameters < encoder.num_parameters
    student.save(tmp_path / "student")
    merged = vectors(load_encoder(tmp_path / "student").model, x)
    for ours, theirs in zip(merged, final, strict=True):
        np.testing.assert_allclose(
            ours, unit(theirs) if normalize else theirs, atol=1e-5
        )


@pytest.mark.parametrize("feature", ["fd", "distillation_first"])
def test_the_dense_layer_begins_as_it_is_told(feature):
    first = feature == "distillation_first"
    make = wide_encoder if first else network
    shape = (WIDE, 8) if first else (6, WIDE)
    kernel = np.random.default_rng(2).normal(size=shape).astype("float32")
    made = stage(make(), feature=feature, dense=kernel)
    np.testing.assert_array_equal(made.dense.kernel, kernel)
    with pytest.raises(InputError, match=rf"`dense` must have.*{shape[0]}, {shape[1]}"):
        stage(make(), feature=feature, dense=kernel.T)
    with pytest.raises(
        InputError, match=r"must have the shape None .*Received: \(9, 6"
    ):
        stage(feature="synchronized", reduction=reduction(), dense=reduction())


def test_the_dense_layer_is_trained_and_never_saved(tmp_path):
    (x, y), encoder = data(), wide_encoder(projection_dim=6)
    parameters = encoder.num_parameters
    made = stage(encoder)
    before = keras.ops.convert_to_numpy(made.dense.kernel)
    made.compile(keras.optimizers.SGD(1e-3), run_eagerly=True)
    made.fit(x, y, batch_size=ROWS, verbose=0)
    assert (keras.ops.convert_to_numpy(made.dense.kernel) != before).all()
    assert made.trained_encoder() is encoder
    encoder.save(tmp_path / "student")
    again = load_encoder(tmp_path / "student")
    assert again.num_parameters == parameters == made.count_params() - 7 * WIDE
    for ours, theirs in zip(
        vectors(again.model, x), vectors(encoder.model, x), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_weight_of_0_leaves_a_term_out():
    (x, y), model = data(), network()
    alone = stage(model, feature_weight=0, logit_weight=0)
    assert alone.terms == ("ams",) and alone.targets == () and alone.dense is None
    alone.compile("sgd", run_eagerly=True)
    logs = alone.evaluate(x, batch_size=ROWS, verbose=0, return_dict=True)
    full = terms_of(stage(model), x, y)
    assert logs == {
        "loss": pytest.approx(full["ams"]),
        "ams": pytest.approx(full["ams"]),
    }
    logits = stage(model, ams_weight=0, feature_weight=0)
    assert logits.dense is None
    assert terms_of(logits, x, y) == {"logit": pytest.approx(full["logit"])}
    assert set(terms_of(stage(model, logit_weight=0), x, y)) == {"ams", "feature"}


FEATURE_ALONE = {"ams_weight": 0, "logit_weight": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"logit_weight": -1}, "`logit_weight` must be at least 0"),
        (FEATURE_ALONE | {"feature_weight": 0}, "a weight above 0"),
        (FEATURE_ALONE | {"feature": "distillation_first"}, "of `ams` or `logit`"),
        ({"reduction": reduction()}, "None for feature='fd'"),
        ({"feature": "synchronised"}, "Did you mean `synchronized`"),
        ({"feature": "synchronized"}, r"\(9, 6\).*Received: None"),
        ({"feature": "synchronized", "reduction": reduction(4)}, r"Received: \(9, 4\)"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(InputError, match=message):
        stage(**options)


def test_what_cannot_be_merged_is_refused():
    for fields in ({"projection_activation": "tanh"}, {"projection_dim": 8}):
        with pytest.raises(InputError, match="can only be merged"):
            stage(wide_encoder(**fields), feature="distillation_first")
    with pytest.raises(InputError, match="can only be merged"):
        stage(network(), feature="distillation_first")
    with pytest.raises(InputError, match="'projection_dim': 4"):
        merge_projection(wide_encoder(), np.zeros((4, 2), "float32"))
