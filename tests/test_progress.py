"""How far something is: lines where there is no terminal, a bar where there is one."""

import sys
from types import SimpleNamespace
from weakref import WeakSet

import pytest
import tqdm.std

from keras_msd.progress import Progress, place, track
from keras_msd.training.callbacks import History


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose sum is the time that has gone by; bars of others are gone."""
    monkeypatch.setattr(tqdm.std.tqdm, "_instances", WeakSet())
    spent = [1000.0]
    monkeypatch.setattr(tqdm.std, "time", lambda: sum(spent))
    return spent


def test_a_line_a_minute_off_a_terminal(clock, capsys):
    with place("step 3 of 20"):
        shown = Progress("teach_student", 300, "sentences", rate=128)
    for batch in range(150):
        clock.append(1.0)
        shown.advance(notes={"loss": 1 / (batch + 1)})
    shown.close()
    assert capsys.readouterr().err.splitlines() == [
        "teach_student, step 3 of 20: 20%, 7680/38400 "
        "[01:00<04:00, 128.00 sentences/s, loss=0.0167]",
        "teach_student, step 3 of 20: 40%, 15360/38400 "
        "[02:00<03:00, 128.00 sentences/s, loss=0.00833]",
    ]


def test_a_last_slice_is_not_counted_as_whole():
    progress = Progress("Encoding", total=25)
    for _ in range(3):
        progress.advance(10)
    assert "100%, 25/25 " in str(progress)


def test_sentences_are_those_of_the_batches(clock, capsys, tmp_path):
    history = History(3, tmp_path / "history.csv", "stage", batch_size=3050)
    history.set_model(SimpleNamespace(reset_metrics=lambda: None))
    history.set_state({"done": 1, "steps": [1], "terms": {"loss": [1.0]}})
    history.on_train_begin()
    clock.append(61.0)
    history.on_train_batch_end(0, {"loss": 0.5})
    expected = "stage: 67%, 12200/18300 [01:01<01:01, 100.00 sentences/s, loss=0.5]\n"
    assert capsys.readouterr().err == expected


def test_items_without_an_end_are_counted(clock, capsys):
    for _ in track(range(3), what="Reading", steps=1000):
        clock.append(50.0)
    assert capsys.readouterr().err.splitlines() == [
        "Reading: 2000 it [01:40, 20.00 it/s]"
    ]


def test_a_bar_on_a_terminal(clock, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = Progress("Encoding", 10)
    shown.advance()
    assert capsys.readouterr().err == ""  # within the first second
    clock.append(2.0)
    shown.advance(notes={"loss": 0.5})
    error = capsys.readouterr().err
    assert "Encoding:  20%|" in error and "| 2/10 [" in error and "loss=0.5" in error
    shown.close()
    assert capsys.readouterr().err.strip() == ""  # nothing is left of it


def test_lines_of_inner_work_do_not_move_the_cursor(clock, capsys):
    outer, inner = Progress("outer", 10), Progress("inner", 10)
    clock.append(61.0)
    outer.advance()
    inner.advance()
    inner.close()
    outer.close()
    assert [line[:10] for line in capsys.readouterr().err.splitlines()] == [
        "outer: 10%",
        "inner: 10%",
    ]
