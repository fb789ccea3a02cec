"""How the processes that JAX has for one run do it together.

The first does every step, and the others take part in stages: it tells them each stage
that it begins, and at the end what `run` returns.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_msd.distribute import message_of_first
from keras_msd.recipes.cache import Step
from keras_msd.recipes.resources import Run

STEP, RESULT = "step", "result"  # keys of messages


def begin(run: Run, step: str) -> None:
    """Tell the other processes, if there are any, to do a step, too."""
    if run.distribution.processes > 1 and run.distribution.process == 0:
        message_of_first(json.dumps({STEP: step}))


def end(run: Run, result: dict[str, Any]) -> None:
    """Tell the other processes, if there are any, what the run came to."""
    if run.distribution.processes > 1:
        message_of_first(json.dumps({RESULT: result}))


def follow(run: Run, steps_of: Callable[[Run], Sequence[Step]]) -> dict[str, Any]:
    """Do each stage that the first process begins, until it has ended the run.

    What a stage leaves in its folder is the first's; this process writes its own into
    a folder that is removed, and reads what later stages begin with on the disk that
    both see.

    Returns:
        What the first process returns.
    """
    steps: Sequence[Step] = ()
    while STEP in (message := json.loads(message_of_first())):
        steps = steps or steps_of(run)
        (step,) = (step for step in steps if step.name == message[STEP])
        with tempfile.TemporaryDirectory(prefix="keras_msd_") as parent:
            folder = Path(parent, step.name)
            folder.mkdir()
            step.run(run, folder)
    return dict(message[RESULT])
