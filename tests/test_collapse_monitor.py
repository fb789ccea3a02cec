"""The warning about embeddings that become alike."""

import logging

import keras
import numpy as np
import pytest
from test_stages import ROWS, batch, network

from keras_msd.stages.collapse_monitor import CollapseMonitor
from keras_msd.stages.teach_assistant import TeachAssistant


def fit(goal, caplog, **options):
    x, y = batch()
    stage = TeachAssistant(network())
    stage.compile(keras.optimizers.Adam(0.03))
    monitor = CollapseMonitor(x, every=8, **options)
    with caplog.at_level(logging.WARNING, "keras_msd"):
        stage.fit(
            x,
            {"teacher": goal},
            batch_size=ROWS,
            epochs=24,
            verbose=0,
            callbacks=[monitor],
        )
    records = [r for r in caplog.records if r.name.startswith("keras_msd")]
    return monitor, stage(x)["source"].numpy(), [r.getMessage() for r in records]


def test_a_constant_guide_is_noticed_once(caplog):
    goal = np.tile(np.arange(1, 7, dtype="float32"), (ROWS, 1))
    _, _, messages = fit(goal, caplog)
    assert len(messages) == 1 and "Embeddings collapse" in messages[0]


def test_a_good_guide_is_not(caplog):
    monitor, vectors, messages = fit(batch()[1]["teacher"], caplog)
    assert messages == []
    rows = [0, 1, 2, 3, 5]  # row 4 repeats the English line of row 0
    unit = vectors[rows] / np.linalg.norm(vectors[rows], axis=1)[:, None]
    pairs = [unit[i] @ unit[j] for i in range(5) for j in range(i)]
    assert monitor.mean_cosine() == pytest.approx(np.mean(pairs), abs=1e-5)


def test_it_looks_early_only(caplog):
    goal = np.ones((ROWS, 6), "float32")
    assert fit(goal, caplog, until=7)[2] == []
