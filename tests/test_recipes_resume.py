"""A run's folder: one process at a time."""

import subprocess
import sys

import pytest

from keras_msd.checks import InputError
from keras_msd.recipes.cache import Step, locked
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.outputs import run_scores

HOLD = """
import sys, time
from pathlib import Path
from keras_msd.recipes.cache import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_until_its_process_is_killed(tmp_path):
    folder = tmp_path / "new" / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout.readline().strip() == b"held"
            with pytest.raises(InputError, match="another process works on"):
                with locked(folder):
                    pass
        finally:
            other.kill()
    for _ in range(2):
        with locked(folder):
            pass


def test_an_assistant_that_scores_nothing():
    recipe = load_recipe("xkd_lab", "smoke")
    rows = [("assistant", {"kind": "assistant"}), ("small", {"student": "small"})]
    steps = [
        Step(name, "evaluation", dict, row={"kind": "stage"} | row)
        for name, row in rows
    ]

    def measured(whole):
        found = {"assistant": whole, "small": 3.0}
        records = {n: {"result": {"cross_lingual": v}} for n, v in found.items()}
        return run_scores(recipe, steps, records)["measured"]

    assert measured(0.0) == {}
    assert measured(4.0) == {"kept_small": 75.0}
