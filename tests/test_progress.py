"""How far something is: lines where there is no terminal, a bar where there is one."""

import sys
from types import SimpleNamespace

import pytest

from keras_msd import progress
from keras_msd.progress import Progress, place, track
from keras_msd.training.history import History


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose sum is the time that has gone by."""
    spent = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: sum(spent))
    return spent


def test_a_line_a_minute_off_a_terminal(clock, capsys):
    with place("step 3 of 20"):
        shown = Progress("teach_student", 300, "sentences", rate=128)
    for batch in range(150):
        clock.append(1.0)
        shown.advance(notes={"loss": 1 / (batch + 1)})
    shown.close()
    assert capsys.readouterr().err.splitlines() == [
        "teach_student, step 3 of 20: 60 of 300 (20 %), 128 sentences/s, 4 min left, "
        "loss 0.01667",
        "teach_student, step 3 of 20: 120 of 300 (40 %), 128 sentences/s, 3 min left, "
        "loss 0.008333",
    ]


def test_what_was_done_before_a_stop_is_no_speed(clock):
    shown = Progress("stage", 100, "sentences", rate=2, done=50)
    clock.append(10.0)
    shown.advance(10, {"dev": 77.25})
    expected = "stage: 60 of 100 (60 %), 2 sentences/s, 40 s left, dev 77.25"
    assert shown.line() == expected


def test_a_last_slice_is_not_counted_as_whole():
    progress = Progress("Encoding", total=25)
    for _ in range(3):
        progress.advance(10)
    assert "25 of 25 (100 %), 0 s left" in progress.line()


def test_sentences_are_those_of_the_batches(clock, capsys, tmp_path):
    history = History(3, tmp_path / "history.csv", "stage", batch_size=3050)
    history.set_model(SimpleNamespace(reset_metrics=lambda: None))
    history.set_state({"done": 1, "steps": [1], "terms": {"loss": [1.0]}})
    history.on_train_begin()
    clock.append(61.0)
    history.on_train_batch_end(0, {"loss": 0.5})
    expected = "stage: 2 of 3 (67 %), 100 sentences/s, 61 s left, loss 0.5\n"
    assert capsys.readouterr().err == expected


def test_items_without_an_end_are_counted(clock, capsys):
    for _ in track(range(3), what="Reading", steps=1000):
        clock.append(61.0)
    assert capsys.readouterr().err.splitlines() == [
        "Reading: 1,000", "Reading: 2,000", "Reading: 3,000",
    ]  # fmt: skip


def test_a_bar_on_a_terminal(clock, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = Progress("Encoding", 10, "sentences")
    shown.advance()
    assert capsys.readouterr().err == ""  # within the first second
    clock.append(2.0)
    shown.advance(notes={"loss": 0.5})
    shown.close()
    assert "Encoding" in (error := capsys.readouterr().err)
    assert "2/10" in error and "loss 0.5" in error
