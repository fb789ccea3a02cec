"""Closed-form and SVD starts against linear algebra written out."""

import keras
import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.models.student import build_student
from keras_msd.starts import (
    bottleneck,
    closed_form,
    closed_form_encoder,
    fit_ridge,
    start_student,
    table_of,
    weigh_rows,
)
from keras_msd.testing import tiny_encoder

RNG = np.random.default_rng(3)
LISTS = [[1, 2, 2], [3], [0, 1, 3, 4], [2, 4], [], [0]]
GOALS = RNG.normal(size=(6, 3)).astype("float32")
TEXTS = ["the cat sleeps", "a dog", "ein Hund läuft im Park"]


@pytest.mark.parametrize("tile", [1, 2, 4, 6, 100])
def test_ridge_is_the_normal_equation(tile, monkeypatch):
    monkeypatch.setattr(closed_form, "TILE", tile)
    table = fit_ridge(iter(LISTS), GOALS, vocabulary_size=6, ridge=0.5)
    counts = np.zeros((6, 6))
    for row, tokens in enumerate(LISTS):
        for token in tokens:
            counts[row, token] += 1 / np.sqrt(len(tokens))
    wanted = np.linalg.solve(counts.T @ counts + 0.5 * np.eye(6), counts.T @ GOALS)
    np.testing.assert_allclose(table, wanted, atol=1e-5)
    assert not table[5].any()


@pytest.mark.parametrize("goals", [GOALS[:5], np.concatenate([GOALS, GOALS])])
def test_ridge_wants_one_goal_per_sentence(goals):
    with pytest.raises(InputError, match="must have the same length"):
        fit_ridge(LISTS, goals, 6)


def test_bottleneck_is_the_best_weighted_pair():
    table = RNG.normal(size=(20, 6)).astype("float32")
    frequencies = RNG.integers(0, 50, 20)
    word, projection = bottleneck(table, 2, frequencies)
    weights = np.sqrt(np.sqrt(frequencies + 1.0))[:, None]
    left, values, right = np.linalg.svd(weights * table, full_matrices=False)
    best = (left[:, :2] * values[:2]) @ right[:2]
    np.testing.assert_allclose(weights * (word @ projection), best, atol=1e-4)
    np.testing.assert_allclose(projection @ projection.T, np.eye(2), atol=1e-5)
    whole, square = bottleneck(table, 6, frequencies)
    np.testing.assert_allclose(whole @ square, table, atol=1e-5)


def test_closed_form_is_the_direction_of_the_mean_row(tokenizer):
    word = RNG.normal(size=(tokenizer.vocabulary_size, 8)).astype("float32")
    encoder = closed_form_encoder(tokenizer, word, max_length=32)
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        mean = word[tokenizer.encode([text])[0]].mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)
    layered = closed_form_encoder(
        tokenizer, word, num_layers=2, num_heads=2, intermediate_dim=16, max_length=32
    )
    np.testing.assert_allclose(layered.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_a_word_table_is_taken_from_what_is_nothing_else(tokenizer):
    rows = tokenizer.vocabulary_size
    word = RNG.normal(size=(rows, 4)).astype("float32")
    kernel = RNG.normal(size=(4, 8)).astype("float32")
    narrow = closed_form_encoder(
        tokenizer, word, projection_dim=8, projection_bias=False, max_length=32
    )
    values = narrow.weights() | {"projection/kernel": kernel}
    narrow.set_weights(values, origin="the test")
    np.testing.assert_allclose(table_of(narrow), word @ kernel, atol=1e-6)
    same = closed_form_encoder(tokenizer, word, kernel, max_length=32)
    np.testing.assert_allclose(table_of(same), word @ kernel, atol=1e-6)
    table = closed_form_encoder(tokenizer, table_of(narrow), max_length=32)
    np.testing.assert_allclose(table.encode(TEXTS), narrow.encode(TEXTS), atol=1e-5)
    bent = closed_form_encoder(tokenizer, word, projection_dim=8, max_length=32)
    values = bent.weights() | {"projection/bias": np.ones(8, "float32")}
    bent.set_weights(values, origin="the test")
    with pytest.raises(InputError, match="`projection/bias` is not zero"):
        table_of(bent)
    with pytest.raises(InputError, match="Received: {'num_layers': 2"):
        table_of(tiny_encoder(tokenizer))


def test_rows_are_weighted_by_smooth_inverse_frequency(tokenizer):
    rows, smoothing = tokenizer.vocabulary_size, 0.02
    counts = RNG.integers(0, 90, rows)
    counts[7] = 0
    word = RNG.normal(size=(rows, 6)).astype("float32")
    encoder = closed_form_encoder(tokenizer, word, max_length=32)
    weigh_rows(encoder, counts, smoothing)
    for text, vector in zip(TEXTS, encoder.encode(TEXTS, normalize=True), strict=True):
        wanted = np.zeros(6)
        for token in tokenizer.encode([text])[0]:
            probability = counts[token] / counts.sum()
            wanted += smoothing / (smoothing + probability) * word[token]
        np.testing.assert_allclose(vector, wanted / np.linalg.norm(wanted), atol=1e-5)
    np.testing.assert_array_equal(table_of(encoder)[7], word[7])


def test_smoothing_must_be_positive(tokenizer):
    word = np.ones((tokenizer.vocabulary_size, 4), "float32")
    encoder = closed_form_encoder(tokenizer, word, max_length=32)
    with pytest.raises(InputError, match="`smoothing`"):
        weigh_rows(encoder, np.ones(len(word)), 0.0)
    with pytest.raises(InputError, match="`frequencies`"):
        weigh_rows(encoder, np.zeros(len(word)), 0.1)


def test_a_start_keeps_the_directions_that_it_is_given(tokenizer):
    assistant = tiny_encoder(tokenizer)
    student = build_student(assistant, unit_layers=2, bottleneck_dim=3)
    directions = np.linalg.qr(RNG.normal(size=(16, 16)))[0].astype("float32")
    given = directions[:, 5:8]
    start_student(student, assistant, np.ones(5), directions=given)
    weights, table = student.weights(), assistant.weights()["embedding/word"]
    word = weights["embedding/word"]
    np.testing.assert_allclose(word, table @ given, atol=1e-6)
    kept = word @ weights["embedding/projection"]
    # What is left out is orthogonal to what is kept.
    np.testing.assert_allclose((table - kept) @ given, 0, atol=1e-6)
    for path in ("embedding/position", "embedding/layer_norm/gamma"):
        np.testing.assert_array_equal(weights[path], assistant.weights()[path])

    with pytest.raises(InputError, match=r"\(16, 3\).*Received: \(16, 16\)"):
        start_student(student, assistant, np.ones(5), directions=directions)


def test_a_block_that_begins_as_the_authors_has_their_numbers():
    assistant = tiny_encoder(hidden_dim=64, num_heads=2, bottleneck_dim=None)
    keras.utils.set_random_seed(5)
    student = build_student(assistant, 1, 16, 2, tables="standard_normal")
    keras.utils.set_random_seed(5)
    again = build_student(assistant, 1, 16, 2, tables="standard_normal").weights()
    values, given = student.weights(), assistant.weights()
    for path, value in values.items():
        np.testing.assert_array_equal(value, again[path])
        if path.startswith("body/"):
            np.testing.assert_array_equal(value, given[path])
    word, pad_id = values["embedding/word"], student.config.pad_id
    assert pad_id is not None and not word[pad_id].any()
    real = np.delete(word, pad_id, axis=0)
    assert abs(real.mean()) < 0.1 and abs(real.std() - 1) < 0.1
    assert np.abs(real).max() > 2.5  # no truncation at two deviations
    assert abs(values["embedding/position"].std() - 1) < 0.1
    edge = np.abs(values["embedding/projection"]).max()
    assert 0.9 / 4 < edge <= 1 / 4  # 1 / sqrt(16)
    assert (values["embedding/layer_norm/gamma"] == 1).all()
    with pytest.raises(InputError, match=r"`tables`.*standard_normal.*uniform"):
        build_student(assistant, 1, 16, 2, tables="uniform")


@pytest.mark.parametrize(
    ("unit_from", "numbers"),
    [("first", [0, 1]), ("last", [2, 3]), ("spread", [0, 2]), ([1, 2], [1, 2])],
)
def test_a_unit_begins_as_the_layers_that_are_named(unit_from, numbers):
    assistant = tiny_encoder(num_layers=4)
    given = assistant.weights()
    made = build_student(assistant, 2, None, unit_from=unit_from).weights()
    for place, number in enumerate(numbers):
        names = [path for path in made if path.startswith(f"body/block_{place}/")]
        assert names
        for path in names:
            source = path.replace(f"block_{place}", f"block_{number}")
            np.testing.assert_array_equal(made[path], given[source])


def test_a_unit_from_elsewhere_is_refused():
    with pytest.raises(InputError, match="unit_from.*middle"):
        build_student(tiny_encoder(num_layers=4), 2, unit_from="middle")
    for numbers in ([1], [1, 1], [0, 1, 2], [3, 4], [-1, 0]):
        with pytest.raises(InputError, match=f"2 different.*0 to 3.*{numbers[0]}"):
            build_student(tiny_encoder(num_layers=4), 2, unit_from=numbers)


@pytest.mark.parametrize("width", [None, 8])
def test_a_student_of_short_sentences_keeps_as_many_positions(width):
    assistant = tiny_encoder(num_layers=2, max_length=16)
    student = build_student(assistant, 2, width, max_length=6)
    if width is None:  # the assistant's own table
        table = assistant.weights()["embedding/position"]
        np.testing.assert_array_equal(
            student.weights()["embedding/position"], table[:6]
        )
        short = ["cat"]
        np.testing.assert_allclose(
            student.encode(short), assistant.encode(short), atol=1e-6
        )
    assert student.config.max_length == student.config.max_positions == 6
    with pytest.raises(InputError, match="max_length=17.*max_length=16"):
        build_student(assistant, 2, width, max_length=17)


def test_a_penalty_that_is_lost_in_float32_is_refused():
    """Both words have the same sums; 4 + 1e-8 is 4 in float32."""
    with pytest.raises(InputError, match="`ridge` is too small.*larger `ridge`"):
        fit_ridge([[0, 1, 0, 1]] * 4, np.ones((4, 2), np.float32), 2, ridge=1e-8)
