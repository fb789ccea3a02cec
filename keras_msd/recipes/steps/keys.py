"""What the result of a step depends on, as one hash."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from keras_msd.files import digest
from keras_msd.recipes.runs.environment import cached_digest, code_digest, environment
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.recipe import Recipe, StudentSettings
from keras_msd.recipes.steps.plan import Step
from keras_msd.recipes.steps.reads import SECTIONS, reads_of

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
    reads = reads_of(action)
    if reads is None:
        return None
    given = dict(getattr(action, "keywords", {}))
    known = {*reads.parents, *reads.values, *reads.ignored}
    parents = {name: given[name] for name in reads.parents if given.get(name)}
    parents |= {name: name for name in reads.steps if name in keys}
    parent_keys = {name: keys.get(parent) for name, parent in parents.items()}
    if given.keys() - known or None in parent_keys.values():
        return None
    values = {name: _plain(given.get(name)) for name in reads.values}
    files = reads.files(run) if reads.files else []
    assistant = run.given_assistant if reads.assistant else None
    seed = [run.recipe.recipe.seed, step.seed or step.name]
    parts = {
        "action": action.func.__name__,
        "environment": environment(),
        "code": code_digest(action.func.__module__),
        "sections": sections(run.recipe, reads.sections),
        "values": values,
        "steps": parent_keys,
        "files": [[path.name, cached_digest(path)] for path in files],
        "teacher": run.teacher.fingerprint if reads.teacher else None,
        "assistant": assistant.fingerprint if assistant else None,
        "seed": seed if reads.drawn else None,
    }
    return digest(json.dumps(parts, sort_keys=True))


def sections(recipe: Recipe, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the named sections of a recipe, and every one that is not known here."""
    left_out = {*SECTIONS, *HEADER} - {*names}
    return {
        name: value for name, value in recipe.settings().items() if name not in left_out
    }


def _plain(value: Any) -> Any:
    if isinstance(value, StudentSettings):
        # What its stages have differently is among the arguments of those stages.
        return value.model_dump(mode="json", exclude={"stages", "variants"})
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value
