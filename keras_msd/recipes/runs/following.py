"""What the other processes of a run do: take part in its stages, and nothing else."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import keras

from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.steps.plan import plan

ENDED = "the run has ended"  # no step has such a name
RESULT = "result.json"  # in the folder of the workers
LOOK_S = 0.1


def follow(run: Run) -> dict[str, Any]:
    """Do each stage that the first process begins, until it has ended the run.

    What a stage leaves in its folder is the first's; this process writes its own into
    a folder that is removed, and reads what later stages begin with on the disk that
    both see.

    Returns:
        What the first process returns.
    """
    done = 0
    while ENDED not in (said := run.workers.said(0)):
        for name in said[done:]:
            (step,) = (step for step in plan(run) if step.name == name)
            keras.utils.set_random_seed(run.seed(step.seed or step.name))
            with tempfile.TemporaryDirectory(prefix="keras_msd_") as folder:
                step.action(Path(folder))
        done = len(said)
        time.sleep(LOOK_S)
    return json.loads((run.workers.folder / RESULT).read_bytes())
