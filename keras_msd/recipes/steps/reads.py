"""What a step reads, declared where its action is written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Action = TypeVar("Action", bound=Callable[..., Any])


class Reads(NamedTuple):
    """What an action reads, apart from its code: the ground on which steps are shared.

    Attributes:
        sections: Sections of the recipe; those that are not in `SECTIONS` always count.
        steps: Steps that it reads under fixed names, as far as the run has them.
        parents: Its arguments that name a step.
        values: Its arguments that count as they are; an argument that is in neither,
            nor in `ignored`, keeps the step from being shared.
        ignored: Its arguments that only name the step itself.
        files: Gives the files of the data folder that it reads, from the run.
        teacher: Whether the teacher counts.
        assistant: Whether an assistant that the recipe names counts.
        drawn: Whether anything is drawn at random.
    """

    sections: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    files: Callable[[Any], list[Path]] | None = None
    teacher: bool = False
    assistant: bool = False
    drawn: bool = True


# Sections of a recipe of which an action declares whether it reads them.
SECTIONS = (
    *("teacher", "data", "tokenizer", "assistant", "student", "stages"),
    *("starts", "evaluate", "inverse_frequency", "matryoshka_dims", "trim"),
    *("precision", "distribute"),
)


def reads(*sections: str, **parts: Any) -> Callable[[Action], Action]:
    """Declare what an action reads; see `Reads`. Without, its steps are not shared."""
    return reads_by(lambda given: Reads(sections, **parts))


def reads_by(rule: Callable[[Mapping[str, Any]], Reads]) -> Callable[[Action], Action]:
    """Declare what an action reads by a rule over the arguments that it is given."""

    def declared(action: Action) -> Action:
        action.reads = rule  # type: ignore[attr-defined]
        return action

    return declared


def reads_of(action: Any) -> Reads | None:
    """Return what a step's action, as `plan` makes it, reads; None if undeclared."""
    rule = getattr(getattr(action, "func", action), "reads", None)
    return rule(getattr(action, "keywords", {})) if rule else None
