"""The steps of a run in order, each with the part of the budget it belongs to."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.run_folder import EXPORT, SPEED
from keras_msd.recipes.runs.updates import fits_table, student_stages
from keras_msd.recipes.schema.recipe import StudentSettings
from keras_msd.recipes.stages.fit import fit
from keras_msd.recipes.stages.kinds import STAGE_KINDS, StageKind
from keras_msd.recipes.steps import data as data_steps
from keras_msd.recipes.steps import finish, starts

SCORE, REDUCED = "score_", "reduced"
THIN_DEEP_STARTS = {
    "random": starts.thin_deep_student,
    "ridge": starts.ridge_student,
}


class Step(NamedTuple):
    """One resumable piece of a run.

    Attributes:
        name: Folder under `stages/`.
        part: Part of the budget.
        action: Called with that folder, empty.
        row: What the step's result is a score row of, if it is one: `name`, `kind`
            ("teacher", "assistant", "closed_form", "untrained", "branch", "stage" or
            "trimmed"), `student` and `stage`.
        seed: Name that decides the seed; the stages of several students share it, so
            that all see the same pairs in the same order. Empty: the step's own.
        wanted: Whether the recipe asks for it; no other step reads one that is not.
    """

    name: str
    part: str
    action: Callable[[Path], Mapping[str, Any] | None]
    row: Mapping[str, str] | None = None
    seed: str = ""
    wanted: bool = True


def plan(run: Run) -> list[Step]:
    """Return every step of a run; those that are done are skipped when it runs."""
    steps = [*_data(run), *_closed_forms(run)]
    assistants = {"trained": "", "untrained": ""}
    if run.recipe.assistant.source != "none":
        assistants, of_assistant = _assistant(run)
        steps += of_assistant
    steps += _reductions(run)
    for name, settings in run.recipe.student.each().items():
        steps += _student(run, name, settings, assistants)
    return [step for step in steps if step.wanted]


def perform(
    run: Run, step: Step, marks: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Do a step unless it is done, from a seed of its own; return its record."""
    keras.utils.set_random_seed(run.seed(step.seed or step.name))
    return run.folder.perform(step.name, step.action, marks)


def make_deterministic() -> None:
    """Have TensorFlow choose kernels whose sums do not depend on timing."""
    if keras.backend.backend() == "tensorflow":
        from keras_msd.training.tensorflow_step import make_deterministic as switch_on

        switch_on()


def table_widths(run: Run) -> list[int]:
    """Return the widths of closed forms' word tables below the teacher's width."""
    hidden = run.recipe.assistant.hidden_dim or run.teacher.dim
    students = run.recipe.student.each().values()
    widths = {it.bottleneck_dim or it.hidden_dim or hidden for it in students}
    widths |= {*run.recipe.starts.widths}
    return sorted((w for w in widths if w < run.teacher.dim), reverse=True)


def _data(run: Run) -> Iterator[Step]:
    if run.recipe.data.kind == "made":
        yield Step("made_data", "tokens", partial(data_steps.make_data, run))
    yield Step("pairs", "tokens", partial(data_steps.take_pairs, run))
    yield Step(
        "teacher_vectors", "teacher", partial(data_steps.take_teacher_vectors, run)
    )
    yield Step(
        f"{SCORE}teacher",
        "evaluation",
        partial(finish.score_teacher, run),
        {"name": "teacher", "kind": "teacher"},
    )
    yield Step("tokenizer", "tokens", partial(data_steps.take_tokenizer, run))


def _closed_forms(run: Run) -> Iterator[Step]:
    scored = run.recipe.starts.closed_form
    if fits_table(run.recipe):
        yield Step("ridge", "closed_forms", partial(starts.fit_table, run))
    for width in (None, *table_widths(run)) if scored else ():
        name = "closed_form" if width is None else f"closed_form_b{width}"
        make = partial(starts.closed_form, run, width=width)
        yield Step(name, "closed_forms", make)
        row = "closed form" if width is None else f"closed form, B {width}"
        yield _score(run, name, {"name": row, "kind": "closed_form"})


def _assistant(run: Run) -> tuple[dict[str, str], list[Step]]:
    """Return the steps, and those that leave it before and after stage 1."""
    last = untrained = "assistant_start"
    make = partial(starts.start_assistant, run)
    steps = [Step(last, "closed_forms", make)]
    for kind in STAGE_KINDS.values():
        if kind.name == "teach_assistant":
            untrained = last
        settings = run.recipe.stages[kind.name]
        if kind.trained(settings) == "assistant" and not settings.skip:
            row = {"name": f"assistant before {kind.short}", "kind": "assistant"}
            steps.append(_score(run, last, row, full=not kind.reads_pairs))
            steps.append(_stage(run, kind, "", last, None, settings))
            last = kind.name
    if run.recipe.inverse_frequency is not None:
        row = {"name": "assistant before weights by frequency", "kind": "assistant"}
        steps.append(_score(run, last, row))
        weigh = partial(
            starts.weigh_rows, run, step=last, smoothing=run.recipe.inverse_frequency
        )
        last = "weigh_rows"
        steps.append(Step(last, "closed_forms", weigh))
    if dims := run.recipe.matryoshka_dims:
        turn = partial(starts.order_dimensions, run, step=last, dims=dims)
        last = "order_dimensions"
        steps.append(Step(last, "closed_forms", turn))
    steps.append(_score(run, last, {"name": "assistant", "kind": "assistant"}))
    steps.append(_keep(run, last, "assistant"))
    if run.recipe.student.kind == "none":
        steps += _trims(run, last, "assistant")
        steps += _use(run, last, "assistant")
    return {"trained": last, "untrained": untrained}, steps


def _reductions(run: Run) -> Iterator[Step]:
    settings = run.recipe.stages["reduce_teacher"]
    for width in () if settings.skip else settings.widths:
        step = f"{REDUCED}_{width}"
        yield _reduction(run, step, width=width)
        score = partial(finish.score_reduction, run, step=step)
        row = {"name": f"teacher, {width} dimensions", "kind": step}
        yield Step(SCORE + step, "evaluation", score, row)


def _reduction(run: Run, step: str, **width: Any) -> Step:
    settings = run.recipe.stages["reduce_teacher"]
    make = partial(starts.reduce_teacher, run, settings=settings, **width)
    return Step(step, "stages", make, seed="reduce_teacher")


def _student(
    run: Run, name: str, settings: StudentSettings, assistants: Mapping[str, str]
) -> Iterator[Step]:
    suffix = name.removeprefix("student")
    last = f"untrained{suffix}"
    origin, guide = assistants[settings.layers], assistants[settings.guide]
    stages = dict(student_stages(run.recipe, settings))
    if settings.kind == "thin_deep":
        feature = stages[STAGE_KINDS["teach_thin_deep"]].feature
        dim = run.teacher.dim if feature == "distillation_first" else None
        shape = starts.thin_deep_shape(settings)
        start = THIN_DEEP_STARTS[settings.start]
        make = partial(start, run, shape=shape, output_dim=dim)
    else:
        build = starts.untrained_student
        make = partial(build, run, settings=settings, assistant=origin)
    yield Step(last, "closed_forms", make, seed="untrained")
    row = {"name": f"{name}, untrained", "kind": "untrained", "student": name}
    yield _score(run, last, row, full=False)
    begun = settings.start
    if begun in starts.FROM_ASSISTANT and settings.bottleneck_dim is not None:
        make = partial(
            starts.start_student, run, student=last, assistant=origin, start=begun
        )
        last = f"student_start{suffix}"
        yield Step(last, "closed_forms", make, seed="student_start")
        row |= {
            "name": f"{name}, {starts.FROM_ASSISTANT[begun]} start",
            "stage": f"{begun}_start",
        }
        yield _score(run, last, row, full=False)
    rest = list(stages)
    for kind, of_stage in stages.items():
        rest.remove(kind)
        if getattr(of_stage, "feature", "") == "synchronized":
            yield _reduction(run, REDUCED + suffix, like=last)
        train = partial(_stage, run, kind, suffix, settings=of_stage)
        if getattr(of_stage, "branch_alone", False):
            steps = _branch_alone(run, suffix, last, train)
        else:
            steps = [train(start=last, assistant=guide)]
        yield from steps
        last = steps[-1].name
        row |= {"name": f"{name}, {kind.name}", "kind": "stage", "stage": kind.name}
        yield _score(run, last, row, full=not any(later.reads_pairs for later in rest))
    yield _keep(run, last, name)
    yield from _trims(run, last, name)
    yield from _use(run, last, name, first=not suffix)


def _trims(run: Run, last: str, name: str) -> Iterator[Step]:
    """Yield what makes, scores and keeps a finished encoder's smaller vocabularies."""
    for trim, settings in (run.recipe.trim or {}).items():
        step = f"trim_{name}_{trim}"
        make = partial(finish.trim, run, step=last, settings=settings)
        yield Step(step, "closed_forms", make)
        yield _score(run, step, {"name": f"{name}, trimmed, {trim}", "kind": "trimmed"})
        yield _keep(run, step, f"{name}_trimmed_{trim}")


def _use(run: Run, last: str, name: str, first: bool = True) -> Iterator[Step]:
    """Yield what is done with an encoder that is finished."""
    if not run.recipe.evaluate.artefacts:
        return
    yield Step(f"{SPEED}{name}", "evaluation", partial(finish.speed, run, step=last))
    if first:
        neighbours = partial(finish.neighbours, run, step=last)
        yield Step("neighbours", "evaluation", neighbours)
    if finish.can_export():
        export = partial(finish.export, run, step=last, name=name)
        yield Step(EXPORT + name, "evaluation", export)


def _branch_alone(
    run: Run, suffix: str, student: str, make: Callable[..., Step]
) -> list[Step]:
    """Return the steps that take a student's word branch out, train and put it back."""
    branch = f"branch{suffix}"
    stage = make(start=branch, assistant=None)
    take = partial(starts.take_branch, run, step=student)
    give = partial(starts.give_branch, run, step=student, branch=stage.name)
    name = f"student{suffix}"
    row = {"name": f"{name}, branch alone", "kind": "branch", "student": name}
    scored = [_score(run, stage.name, row)] if run.recipe.evaluate.branches else []
    return [
        Step(branch, "closed_forms", take, seed="branch"),
        stage,
        *scored,
        Step(f"branch_back{suffix}", "closed_forms", give, seed="branch_back"),
    ]


def _stage(
    run: Run,
    kind: StageKind,
    suffix: str,
    start: str,
    assistant: str | None,
    settings: Any,
) -> Step:
    step = kind.name + suffix
    action = partial(
        fit,
        run,
        step=step,
        name=kind.name,
        settings=settings,
        start=start,
        assistant=assistant if kind.needs_assistant else None,
        precision=run.precision,
    )
    if getattr(settings, "feature", "") == "synchronized":
        action = partial(action, reduction=REDUCED + suffix)
    return Step(step, "stages", action, seed=kind.name)


def _score(run: Run, step: str, row: Mapping[str, str], full: bool = True) -> Step:
    rule = run.recipe.evaluate.intermediate
    every = full or rule == "full"
    action = partial(finish.score, run, step=step, full=every, others=full)
    wanted = full or rule != "none"
    return Step(SCORE + step, "evaluation", action, dict(row), wanted=wanted)


def _keep(run: Run, step: str, name: str) -> Step:
    return Step(f"keep_{name}", "stages", partial(finish.keep, run, step, name))
