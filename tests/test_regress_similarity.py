"""Regression on similarity scores: loss, stage, scales of gold, batches, selection."""

import gzip

import keras
import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.data.scored import ScoredBatches, read_scored, scale_gold
from keras_msd.losses import CosineSimilarityMSE
from keras_msd.stages import RegressSimilarity
from keras_msd.testing import run_loss_test, run_stage_test, tiny_encoder

FIRST = np.array([[3, 0, 4], [1, 1, 0], [0, 2, 0]], "float32")
SECOND = np.array([[3, 0, 4], [0, 1, 0], [0, -1, 0]], "float32")
GOLD = np.array([0.5, 0.25, 0.5], "float32")
ROWS = [
    (0.2 * (row % 6), f"a cat sees {'a dog ' * (row % 4)}", f"the cat sees it {row}")
    for row in range(23)
]


def test_loss_is_the_squared_difference_of_the_cosine():
    root = 1 / np.sqrt(2)
    rows = [(1 - 0.5) ** 2, (root - 0.25) ** 2, (-1 - 0.5) ** 2]
    run_loss_test(CosineSimilarityMSE(), GOLD, (FIRST, SECOND), rows)


def test_loss_refuses_other_shapes():
    with pytest.raises(InputError, match="must be a pair"):
        CosineSimilarityMSE()(GOLD, FIRST)


@pytest.mark.parametrize(
    ("gold", "scale", "message"),
    [
        ([3, 0.5], "from_1", "from 1 to 5.*0.5 in row 2.*another of over_5"),
        ([3, 6, 7], "over_5", r"6 in row 2 \(2 of 3.*bring the scores"),
        ([np.nan], "over_5", "nan in row 1"),
        ([3], "over5", "'over_5', 'from_1'.*Did you mean `over_5`"),
    ],
)
def test_gold_that_does_not_fit_is_refused(gold, scale, message):
    with pytest.raises(InputError, match=message):
        scale_gold(gold, scale, "some.tsv.gz")


def test_a_file_is_named_in_the_error(tmp_path):
    path = tmp_path / "sick.train.en.tsv.gz"
    path.write_bytes(gzip.compress(b"0\ta\tb\n4.5\tc\td\n"))
    with pytest.raises(InputError, match="sick.train.en.tsv.gz: the scale .from_1."):
        read_scored(path, "from_1")


def test_batches_hold_each_row_once_an_epoch():
    encoder = tiny_encoder()
    batches = ScoredBatches(ROWS, encoder, batch_size=5, epochs=3, seed=1)
    assert len(batches) == 12 and batches.steps_per_epoch == 4
    orders = []
    for epoch in range(3):
        rows = np.concatenate([batches.rows(4 * epoch + k) for k in range(4)])
        assert len(set(rows.tolist())) == 20
        orders.append(tuple(rows.tolist()))
    assert len(set(orders)) == 3
    twin = ScoredBatches(ROWS, encoder, batch_size=5, epochs=3, seed=1)
    assert twin.rows(7).tolist() == batches.rows(7).tolist()
    other = ScoredBatches(ROWS, encoder, batch_size=5, epochs=3, seed=2)
    assert other.rows(7).tolist() != batches.rows(7).tolist()


def test_a_batch_is_the_tokenised_rows():
    encoder = tiny_encoder()
    batches = ScoredBatches(ROWS, encoder, batch_size=4, seed=3)
    x, y = batches[2]
    rows = batches.rows(2)
    np.testing.assert_array_equal(
        y["gold"], np.array([ROWS[row][0] for row in rows], "float32")
    )
    for side, column in (("source", 1), ("target", 2)):
        ids = encoder.tokenizer.encode([ROWS[row][column] for row in rows])
        for own, mask, wanted in zip(
            x[f"{side}_token_ids"], x[f"{side}_padding_mask"], ids, strict=True
        ):
            assert own[mask == 1].tolist() == wanted[: encoder.max_length]
            assert (own[mask == 0] == encoder.tokenizer.pad_id).all()
    with pytest.raises(IndexError):
        batches[5]


def test_batches_refuse_what_does_not_fit():
    encoder = tiny_encoder()
    with pytest.raises(InputError, match="in row 2.*scaled_rows"):
        ScoredBatches([(1, "a", "b"), (4, "c", "d")], encoder, batch_size=1)
    with pytest.raises(InputError, match="batch_size=64, 23 rows"):
        ScoredBatches(ROWS, encoder, batch_size=64)
    with pytest.raises(InputError, match="must be at most the encoder's"):
        ScoredBatches(ROWS, encoder, batch_size=4, max_length=10_000)


def test_batches_have_at_most_as_many_shapes_as_buckets():
    options = {"batch_size": 2, "epochs": 3, "multiple": 2}
    free = ScoredBatches(ROWS, tiny_encoder(), **options)
    few = ScoredBatches(ROWS, tiny_encoder(), **options, buckets=2)
    shapes = set()
    for (x, _), (whole, _) in zip(few, free, strict=True):
        for side in ("source", "target"):
            name = f"{side}_padding_mask"
            np.testing.assert_array_equal(x[name].sum(1), whole[name].sum(1))
        shapes.add((x["source_token_ids"].shape, x["target_token_ids"].shape))
    assert len(shapes) == few.shapes() == 2
    assert few.identity != free.identity


def network(**fields):
    keras.utils.set_random_seed(3)
    return tiny_encoder(dropout=0.0, **fields)


def one_batch():
    x, y = ScoredBatches(ROWS, network(), batch_size=6, multiple=16)[0]
    return x | {"group": np.arange(6, dtype="int32")}, y


def test_stage(eagerly):
    run_stage_test(lambda: RegressSimilarity(network(num_layers=0)), *one_batch())


def test_stage_compares_the_encoders_cosines():
    (x, y), encoder = one_batch(), network()
    stage = RegressSimilarity(encoder)
    made = stage.loss_terms(x, y, stage(x, training=False))["similarity_mse"]
    rows = ScoredBatches(ROWS, encoder, batch_size=6, multiple=16).rows(0)
    sides = [encoder.encode([ROWS[row][k] for row in rows]) for k in (1, 2)]
    first, second = (s / np.linalg.norm(s, axis=1, keepdims=True) for s in sides)
    wanted = np.mean((np.sum(first * second, axis=1) - y["gold"]) ** 2)
    assert float(made) == pytest.approx(wanted, rel=1e-4)


def test_stage_refuses_gold_of_another_shape():
    (x, y), stage = one_batch(), RegressSimilarity(tiny_encoder())
    with pytest.raises(InputError, match="`gold` must have the shape"):
        stage.compute_loss(x, {"gold": y["gold"][:, None]}, stage(x))


def test_processes_read_their_rows_of_scored_batches():
    rows = [(place / 20, f"one {'word ' * place}", "two") for place in range(20)]
    encoder = tiny_encoder()
    whole = ScoredBatches(rows, encoder, batch_size=4, epochs=2)
    parts = [whole.of_process(index, 2)[7] for index in (0, 1)]
    for kind in (0, 1):
        for name, value in whole[7][kind].items():
            joined = np.concatenate([part[kind][name] for part in parts])
            np.testing.assert_array_equal(joined, value)
