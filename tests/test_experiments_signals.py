"""The loss of token vectors in the table of signals."""

import sys
from pathlib import Path

import numpy as np
import pytest

import keras_msd as msd
from keras_msd.testing import tiny_encoder, tiny_pairs

ROOT = Path(__file__).parents[1]


@pytest.fixture
def signals(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import signals

    yield signals
    sys.modules.pop("signals", None)


def batch_of(encoder):
    batches = msd.data.PairBatches(tiny_pairs(), encoder, {}, batch_size=4, epochs=1)
    return batches[0]


def test_the_loss_is_the_share_of_the_variance_that_is_missing(signals):
    draw = np.random.default_rng(0)
    goal, given = draw.normal(3, 2, (2, 3, 5, 4)).astype(np.float32)
    mask = np.arange(5) < np.array([[5], [2], [1]])
    real, other = goal[mask], given[mask]
    expected = (np.square(other - real).mean(axis=0) / real.var(axis=0)).mean()
    found = signals.lost_variance(goal, given, mask.astype(np.int32))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    always = np.broadcast_to(real.mean(axis=0), goal.shape)
    found = signals.lost_variance(goal, always, mask)
    np.testing.assert_allclose(found, 1, rtol=1e-5)


def test_the_terms_are_those_of_the_networks(signals):
    """The vectors' from `encode`; the states' from networks cut behind a layer."""
    assistant, student = (
        tiny_encoder(num_layers=layers, bottleneck_dim=None) for layers in (4, 2)
    )
    stage = signals.Imitation(student, assistant, depths=2, weight=1.0)
    x, y = batch_of(student)
    terms = stage.loss_terms(x, y, stage(x, training=True))
    vectors = states = 0.0
    for side in signals.SIDES:
        ids, mask = x[f"{side}_token_ids"], x[f"{side}_padding_mask"]
        inputs = {"token_ids": ids, "padding_mask": mask}
        pairs = []
        for encoder, every in ((assistant, 2), (student, 1)):
            network = encoder.model
            hidden = network.get_layer("embedding")(ids)
            found = []
            for place, block in enumerate(network.get_layer("body").blocks):
                hidden = block(hidden, padding_mask=mask.astype(bool))
                found += [hidden] if (place + 1) % every == 0 else []
            pairs.append((found, network(inputs, training=False)))
        (goals, one), (own, other) = pairs
        vectors += np.square(np.array(one) - np.array(other)).sum(axis=1).mean()
        states += np.mean(
            [
                signals.lost_variance(*both, mask)
                for both in zip(goals, own, strict=True)
            ]
        )
    np.testing.assert_allclose(terms["vectors"], vectors, rtol=1e-4)
    np.testing.assert_allclose(terms["hidden_states"], states, rtol=1e-4)


def test_an_encoder_that_equals_its_assistant_has_nothing_to_learn(signals):
    encoder = tiny_encoder(num_layers=3)
    stage = signals.Imitation(encoder, encoder, depths=3, weight=1.0)
    x, y = batch_of(encoder)
    terms = stage.loss_terms(x, y, stage(x, training=True))
    np.testing.assert_allclose([*terms.values()], 0, atol=1e-6)


def test_without_depths_there_is_no_term_for_states(signals):
    encoder = tiny_encoder()
    assert signals.Imitation(encoder, encoder, 0, 1.0).terms == ("vectors",)
