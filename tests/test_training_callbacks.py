"""The warning about embeddings that become alike."""

import logging

import keras
import numpy as np
import pytest
from test_stages import ROWS, batch, network

from keras_msd.checks import InputError
from keras_msd.stages import AlignEmbedding, RegressSimilarity, TeachAssistant
from keras_msd.training.callbacks import CollapseMonitor


class Fixed:
    """Stands for a stage that always gives the same vectors."""

    def __init__(self, vectors):
        self.vectors = vectors
        self.optimizer = keras.optimizers.SGD()

    def __call__(self, x, training):
        return {"source": self.vectors}


def messages(vectors, caplog, before=0, **options):
    monitor = CollapseMonitor(batch()[0], every=2, **options)
    stage = Fixed(np.eye(ROWS, dtype="float32"))
    monitor.set_model(stage)
    with caplog.at_level(logging.WARNING, "keras_msd"):
        monitor.on_epoch_begin(0)
        for update in range(before + 10):
            if update == before:
                stage.vectors = np.asarray(vectors, "float32")
            monitor.on_train_batch_end(update)
    return [r.getMessage() for r in caplog.records]


def test_equal_vectors_are_noticed_once(caplog):
    made = messages(np.ones((ROWS, 3)), caplog)
    assert len(made) == 1
    assert "between different sentences is 1.000 after 2 updates" in made[0]


def test_a_late_collapse_is_noticed(caplog):
    made = messages(np.ones((ROWS, 3)), caplog, before=600)
    assert len(made) == 1 and "after 602 updates" in made[0]


def test_the_limit_is_the_mean_over_pairs_of_different_lines(caplog):
    vectors = np.eye(ROWS)
    vectors[4] = vectors[0]  # the same English line: not a pair
    assert messages(vectors, caplog, threshold=0.001) == []
    vectors[1] = vectors[0]
    assert "is 0.100 after" in messages(vectors, caplog, threshold=0.09)[0]


def test_it_runs_in_fit_and_takes_the_pairs_of_distinct_lines():
    x, y = batch()
    stage = TeachAssistant(network())
    stage.compile(keras.optimizers.SGD(0.01), run_eagerly=True)
    monitor = CollapseMonitor(x, every=1)
    stage.fit(x, y, batch_size=ROWS, verbose=0, callbacks=[monitor])
    assert monitor.updates == 1
    vectors = stage(x)["source"].numpy()[[0, 1, 2, 3, 5]]
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    pairs = [unit[i] @ unit[j] for i in range(5) for j in range(i)]
    assert monitor.mean_cosine() == pytest.approx(np.mean(pairs), abs=1e-5)


def test_several_updates_at_a_time_are_counted(monkeypatch):
    looks = []
    x, y = batch()
    stage = TeachAssistant(network())
    stage.compile(keras.optimizers.SGD(0.01), steps_per_execution=3)
    monitor = CollapseMonitor(x, every=2)
    monkeypatch.setattr(
        monitor, "mean_cosine", lambda: looks.append(monitor.updates) or 0.0
    )
    stage.fit(x, y, batch_size=1, verbose=0, callbacks=[monitor])
    assert monitor.updates == ROWS and looks == [3, 6]


def test_without_groups_every_row_is_a_line():
    x, _ = batch()
    del x["group"]
    y = {"gold": np.ones(ROWS, "float32")}
    stage = RegressSimilarity(network())
    stage.compile("sgd", run_eagerly=True)
    monitor = CollapseMonitor(x, every=1)
    stage.fit(x, y, batch_size=ROWS, verbose=0, callbacks=[monitor])
    assert len(monitor.rows) == ROWS


def test_what_has_no_cosines_is_refused():
    x, _ = batch()
    with pytest.raises(InputError, match="Received: 1. Take a larger"):
        CollapseMonitor({name: value[:1] for name, value in x.items()})
    monitor = CollapseMonitor(x)
    monitor.set_model(AlignEmbedding(network(), per_token=True))
    with pytest.raises(InputError, match=r"Received: \(6, 7, 8\)"):
        monitor.mean_cosine()
