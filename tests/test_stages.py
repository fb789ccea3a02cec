"""Every stage: its equation, its training step, what it refuses."""

import keras
import numpy as np
import pytest

from keras_msd import stages
from keras_msd.checks import InputError
from keras_msd.losses import (
    Matryoshka,
    MultilingualContrastive,
    SimilarityDistribution,
)
from keras_msd.models.network import EncoderConfig, build_model
from keras_msd.stages import (
    AlignEmbedding,
    ContrastiveLearning,
    TeachAssistant,
    TeachStudent,
)
from keras_msd.stages.table import STAGES
from keras_msd.testing import run_stage_test

HIDDEN, DIM, LENGTH, ROWS = 8, 6, 7, 6
SIZES = {"vocabulary_size": 30, "hidden_dim": HIDDEN, "num_layers": 0, "num_heads": 2}
SIZES |= {"intermediate_dim": 16, "max_length": 10, "pad_id": 1}
SIZES |= {"bottleneck_dim": 4, "projection_dim": DIM, "normalize": False}


def network(seed=3, **fields):
    keras.utils.set_random_seed(seed)
    return build_model(EncoderConfig(**SIZES | {"dropout": 0.0} | fields))


def batch(seed=0):
    """Return one batch; rows 0 and 4 share their English line."""
    draw = np.random.default_rng(seed)
    x = {"group": np.array([0, 1, 2, 3, 0, 5], "int32")}
    for side in ("source", "target"):
        lengths = draw.integers(2, LENGTH + 1, ROWS)
        lengths[0] = LENGTH
        mask = (np.arange(LENGTH) < lengths[:, None]).astype("int32")
        ids = draw.integers(2, 30, (ROWS, LENGTH)).astype("int32")
        x |= {f"{side}_token_ids": np.where(mask, ids, 1).astype("int32")}
        x |= {f"{side}_padding_mask": mask}
    for part in (0, 1):
        for name in ("source_token_ids", "source_padding_mask"):
            x[name][4 * part] = x[name][0]
    wide = {"teacher": DIM, "assistant_source": DIM, "assistant_target": DIM}
    wide |= {"embedding_source": HIDDEN, "embedding_target": HIDDEN}
    y = {key: draw.normal(size=(ROWS, dim)) for key, dim in wide.items()}
    y["teacher"][4] = y["teacher"][0]
    return x, {key: value.astype("float32") for key, value in y.items()}


def per_token_goals(seed=5):
    guide = network(seed).get_layer("embedding")
    x, _ = batch()
    goals = {}
    for side in ("source", "target"):
        rows = np.zeros((ROWS, 10, HIDDEN), "float32")
        mask = x[f"{side}_padding_mask"][..., None]
        rows[:, :LENGTH] = np.array(guide(x[f"{side}_token_ids"])) * mask
        goals[f"embedding_{side}"] = rows.reshape(ROWS, -1)
    return goals


def terms_of(stage, x, y):
    values = stage.loss_terms(x, y, stage(x, training=False))
    return {name: float(value) for name, value in values.items()}


def vectors(model, x):
    names = ("token_ids", "padding_mask")
    sides = ("source", "target")
    return [np.array(model({n: x[f"{s}_{n}"] for n in names})) for s in sides]


@pytest.mark.parametrize("kind", [TeachAssistant, AlignEmbedding, TeachStudent])
def test_stage(eagerly, kind):
    run_stage_test(lambda: kind(network(), source_mse=0.5), *batch())


def test_align_embedding_per_token(eagerly):
    def make():
        return AlignEmbedding(network(), per_token=True)

    run_stage_test(make, batch()[0], per_token_goals())


def test_contrastive_learning():
    others = stages.LossTerm("others", "similarity_distribution", "teacher", weight=0.5)
    options = {"kd_weight": 3, "losses": [others], "matryoshka_dims": [2]}

    def make():
        return ContrastiveLearning(network(), **options)

    run_stage_test(make, *batch())


@pytest.mark.parametrize(
    ("kind", "goals"),
    [
        (TeachAssistant, ("teacher", "teacher")),
        (TeachStudent, ("assistant_source", "assistant_target")),
    ],
)
def test_equations_2_and_4_compare_each_side_with_its_goal(kind, goals):
    (x, y), model = batch(), network()
    made, summed = (terms_of(kind(model, dims=it), x, y) for it in ("mean", "sum"))
    sides = zip(("source", "target"), vectors(model, x), goals, strict=True)
    for side, vector, goal in sides:
        wanted = np.mean((vector - y[goal]) ** 2)
        assert made[f"{side}_mse"] == pytest.approx(wanted, rel=1e-5)
        assert summed[f"{side}_mse"] == pytest.approx(DIM * wanted, rel=1e-5)


def test_the_other_printing_of_equation_2_is_a_loss_term():
    """There, the teacher reads the translation in the second term."""
    (x, y), model = batch(), network()
    y |= {"own": y["assistant_source"], "own_target": y["assistant_target"]}
    term = stages.LossTerm("own", "feature_distillation", ("own", "own_target"))
    stage = TeachAssistant(model, losses=[term], source_mse=0, target_mse=0)
    sides = zip(vectors(model, x), (y["own"], y["own_target"]), strict=True)
    wanted = sum(np.mean((side - goal) ** 2) for side, goal in sides)
    assert terms_of(stage, x, y)["own"] == pytest.approx(wanted, rel=1e-5)
    assert stage.term_weights == {"own": 1}


def test_a_term_of_weight_0_needs_no_vectors():
    record, names = STAGES["teach_student"], ("assistant_source", "assistant_target")
    losses = {"more": {"loss": "embedding_mse", "goals": names[0]}}
    zeros = {"source_mse": 0, "more": 0}
    settings = record.settings(steps=1, losses=losses, weights=zeros)
    assert [*record.targets(settings)] == ["assistant_target"]
    (x, y), model = batch(), network()
    stage = TeachStudent(model, source_mse=0)
    assert stage.targets == ("assistant_target",)
    del y["assistant_source"]
    assert terms_of(stage, x, y).keys() == {"target_mse"}
    settings = record.settings(steps=1, losses=losses, weights={"source_mse": 0})
    assert [*record.targets(settings)] == [*names]
    settings = record.settings(steps=1, weights={"source_mse": 0, "target_mse": 0})
    ranked = STAGES["contrastive_learning"]
    assert [*ranked.targets(settings)] == ["teacher"]  # of the contrastive term
    with pytest.raises(InputError, match="above 0"):
        TeachStudent(model, source_mse=0, target_mse=0)


def test_equation_3_compares_masked_means_of_the_embedding_block():
    (x, y), model = batch(), network()
    made = terms_of(AlignEmbedding(model), x, y)
    for side in ("source", "target"):
        tokens = np.array(model.get_layer("embedding")(x[f"{side}_token_ids"]))
        mask = x[f"{side}_padding_mask"]
        rows = [t[m == 1].mean(axis=0) for t, m in zip(tokens, mask, strict=True)]
        wanted = np.mean((rows - y[f"embedding_{side}"]) ** 2)
        assert made[f"{side}_mse"] == pytest.approx(wanted, rel=1e-5)


def test_equation_3_per_token_averages_real_tokens_of_the_batch():
    (x, _), y, model = batch(), per_token_goals(), network()
    made = terms_of(AlignEmbedding(model, per_token=True), x, y)
    tokens = np.array(model.get_layer("embedding")(x["target_token_ids"]))
    goal = y["embedding_target"].reshape(ROWS, 10, HIDDEN)[:, :LENGTH]
    real = x["target_padding_mask"] == 1
    wanted = np.mean((tokens[real] - goal[real]) ** 2)
    assert made["target_mse"] == pytest.approx(wanted, rel=1e-5)


def test_equation_7_adds_the_contrastive_term():
    (x, y), model = batch(), network()
    made = terms_of(ContrastiveLearning(model), x, y)
    unit = [v / np.linalg.norm(v, axis=1)[:, None] for v in vectors(model, x)]
    goal = y["teacher"] / np.linalg.norm(y["teacher"], axis=1)[:, None]
    wanted = np.mean((goal @ goal.T - unit[0] @ unit[1].T) ** 2)
    assert made["contrastive"] == pytest.approx(wanted, rel=1e-5)
    assert made["source_mse"] == terms_of(TeachAssistant(model), x, y)["source_mse"]


def test_contrastive_options():
    model = network()
    hard = ContrastiveLearning(model, "ce_hard", kd_weight=2)
    assert hard.term_weights == {"source_mse": 2, "target_mse": 2, "contrastive": 0.01}
    x, y = batch()
    summed = MultilingualContrastive("ce_soft", reduction="sum")
    printed = terms_of(ContrastiveLearning(model, contrastive=summed), x, y)
    mean = terms_of(ContrastiveLearning(model, "ce_soft"), x, y)
    assert printed["contrastive"] == pytest.approx(ROWS * mean["contrastive"], 1e-5)
    lines = MultilingualContrastive("bool")(x["group"], vectors(model, x))
    grouped = terms_of(ContrastiveLearning(model, "bool"), x, y)["contrastive"]
    assert abs(grouped - float(lines)) > 1e-3


def test_terms_of_both_sides_see_prefixes_too():
    (x, y), model = batch(), network()
    others = stages.LossTerm("others", "similarity_distribution", "teacher", weight=0.5)
    options = {"target": "softmax", "losses": [others]}
    whole = terms_of(ContrastiveLearning(model, **options), x, y)
    stage = ContrastiveLearning(model, matryoshka_dims=[2, 3], **options)
    made = terms_of(stage, x, y)
    assert made["source_mse"] == whole["source_mse"]
    goals, sides = (y["teacher"], x["group"]), vectors(model, x)
    wanted = Matryoshka(MultilingualContrastive("softmax"), [2, 3])(goals, sides)
    assert made["contrastive"] == pytest.approx(float(wanted), rel=1e-5)
    wanted = Matryoshka(SimilarityDistribution(), [2, 3])(y["teacher"], sides)
    assert made["others"] == pytest.approx(float(wanted), rel=1e-5)
    assert stage.term_weights["others"] == 0.5


def test_without_contrastive_no_group_is_needed():
    x, y = batch()
    del x["group"]
    stage = ContrastiveLearning(network(), contrastive=None)
    assert set(terms_of(stage, x, y)) == {"source_mse", "target_mse"}
    with pytest.raises(InputError, match="must contain `group`"):
        terms_of(ContrastiveLearning(network()), x, y)


def test_logs_weigh_batches_by_their_rows():
    model, (x, y) = network(), batch()
    stage = TeachAssistant(model)
    stage.compile(optimizer=None, run_eagerly=True)
    whole = stage.evaluate(x, y, batch_size=ROWS, verbose=0, return_dict=True)
    uneven = stage.evaluate(x, y, batch_size=4, verbose=0, return_dict=True)
    assert uneven["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert uneven["target_mse"] == pytest.approx(whole["target_mse"], rel=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy):
    x, y = batch()
    wanted = terms_of(ContrastiveLearning(network()), x, y)
    keras.config.set_dtype_policy(policy)
    try:
        model = network()
    finally:
        keras.config.set_dtype_policy("float32")
    stage = ContrastiveLearning(model)
    stage.compile(keras.optimizers.SGD(0.001), run_eagerly=True)
    logs = stage.fit(x, y, batch_size=ROWS, verbose=0, epochs=4).history
    for name, value in wanted.items():
        assert logs[name][0] == pytest.approx(value, rel=0.05)
    assert logs["loss"][-1] < logs["loss"][0]


def test_a_step_is_traced_once():
    class Counted(ContrastiveLearning):
        calls = 0

        def call(self, x, training=None):
            Counted.calls += 1
            return super().call(x, training)

    stage = Counted(network())
    stage.compile(keras.optimizers.Adam())
    stage.fit(*batch(), batch_size=ROWS, epochs=2, verbose=0)
    assert Counted.calls == 1


def test_a_users_own_model_keeps_its_regularisers():
    def loss(model):
        stage = TeachAssistant(model)
        stage.compile(optimizer=None, run_eagerly=True)
        return stage.evaluate(x, y, batch_size=ROWS, verbose=0)[0]

    x, y = batch()
    plain, regular = network(), network()
    kernel = regular.get_layer("projection").kernel
    kernel.regularizer = keras.regularizers.L2(1.0)
    penalty = float(np.square(kernel.numpy()).sum())
    assert loss(regular) == pytest.approx(loss(plain) + penalty, rel=1e-5)


def test_mistakes_are_named():
    model, (x, y) = network(), batch()
    stage = TeachAssistant(model)
    with pytest.raises(InputError, match="Did you mean `source_mse`"):
        TeachAssistant(model, sorce_mse=2)
    with pytest.raises(InputError, match="sample weights"):
        stage.compute_loss(x, y, stage(x), np.ones(ROWS))
    with pytest.raises(InputError, match="must contain `target_token_ids`"):
        stage({name: x[name] for name in ("source_token_ids", "source_padding_mask")})
    with pytest.raises(InputError, match="layer named `embedding`"):
        AlignEmbedding(keras.Model(model.input, list(model.input.values())))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: TeachAssistant(model, source_mse=-1), "source_mse=-1"),
        (lambda model: TeachAssistant(model, source_mse=np.nan), "source_mse=nan"),
        (lambda model: ContrastiveLearning(model, kd_weight=np.inf), "inf"),
        (lambda model: ContrastiveLearning(model, contrastive="soft"), "'default'"),
        (
            lambda model: ContrastiveLearning(model, "sft", contrastive=None),
            "Did you mean `soft`",
        ),
        (lambda model: TeachAssistant(keras.Sequential()), "Received: Sequential"),
        (lambda model: TeachAssistant(len), "teachers cannot be trained"),
    ],
)
def test_an_argument_that_cannot_train_is_refused_at_once(make, message):
    with pytest.raises(InputError, match=message):
        make(network())


def test_a_stage_is_not_saved_but_its_weights_are(tmp_path):
    x, y = batch()
    stage = TeachAssistant(network())
    stage.compile("sgd", run_eagerly=True)

    def fit(path, **options):
        keep = keras.callbacks.ModelCheckpoint(tmp_path / path, **options)
        stage.fit(x, y, batch_size=ROWS, verbose=0, callbacks=[keep])

    with pytest.raises(InputError, match="save_weights_only=True"):
        fit("best.keras")
    fit("best.weights.h5", save_weights_only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["best.weights.h5"]
