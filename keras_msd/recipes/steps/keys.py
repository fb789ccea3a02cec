"""What the result of a step depends on, as one hash."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from keras_msd.files import digest
from keras_msd.recipes.runs.environment import environment, file_digests
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.schema.training import StudentSettings
from keras_msd.recipes.steps.plan import Step
from keras_msd.recipes.steps.reads import READS, SECTIONS

# Labels and limits of time: they are written into reports, never into a step's files.
HEADER = ("recipe", "budget", "scale")


def step_key(run: Run, step: Step, keys: Mapping[str, str | None]) -> str | None:
    """Return the hash of everything that a step's result depends on.

    Two steps of equal keys leave equal files, whatever their names and recipes.

    Args:
        run: The run; the steps before this one are done.
        step: The step, its action as `plan` makes it.
        keys: Keys of the steps before.

    Returns:
        None where the step, or one that it reads, is not to be shared: it writes
        outside its folder, measures time, or has an argument that is not known here.
    """
    action: Any = step.action
    reads = READS.get(getattr(action, "func", action))
    if reads is None:
        return None
    given = dict(getattr(action, "keywords", {}))
    known = {*reads.parents, *reads.values, *reads.ignored}
    parents = {name: given[name] for name in reads.parents if given.get(name)}
    parents |= {name: name for name in reads.steps if name in keys}
    found = {name: keys.get(parent) for name, parent in parents.items()}
    if given.keys() - known or None in found.values():
        return None
    values = {name: _plain(given.get(name)) for name in reads.values}
    parts = {
        "action": action.func.__name__,
        "environment": environment(),
        "sections": sections(run.recipe, reads.sections),
        "values": values,
        "steps": found,
        "files": _digests(reads.files(run)) if reads.files else [],
        "teacher": run.teacher.fingerprint if reads.teacher else None,
        "assistant": _assistant(run) if reads.assistant else None,
        "seed": [run.recipe.recipe.seed, step.seed or step.name]
        if reads.drawn
        else None,
    }
    return digest(json.dumps(parts, sort_keys=True))


def sections(recipe: Recipe, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Return the wanted sections of a recipe, and every one that is not known here."""
    left_out = {*SECTIONS, *HEADER} - {*wanted}
    return {
        name: value for name, value in recipe.settings().items() if name not in left_out
    }


def _assistant(run: Run) -> str | None:
    return run.given_assistant.fingerprint if run.given_assistant else None


def _plain(value: Any) -> Any:
    if isinstance(value, StudentSettings):
        # What its stages have differently is among the arguments of those stages.
        return value.model_dump(mode="json", exclude={"stages", "variants"})
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _digests(paths: list[Path]) -> list[list[str]]:
    hashes = file_digests(paths)
    return [[path.name, one] for path, one in zip(paths, hashes, strict=True)]
