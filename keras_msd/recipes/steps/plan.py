"""The steps of a run in order, each with the part of the budget it belongs to."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.training import (
    RegressSettings,
    StageSettings,
    StudentSettings,
    StudentStage,
    ThinDeepSettings,
)
from keras_msd.recipes.steps import data as data_steps
from keras_msd.recipes.steps import finish as end_steps
from keras_msd.recipes.steps import starts as start_steps
from keras_msd.recipes.steps import thin_deep as thin_deep_steps
from keras_msd.recipes.steps.regress import regress
from keras_msd.recipes.steps.train import train, train_with_curve

SCORE, SPEED, EXPORT, REDUCED = "score_", "speed_", "export_", "reduced"
STUDENT_STAGES: tuple[StudentStage, ...] = (
    "align_embedding",
    "teach_student",
    "contrastive_learning",
    "teach_thin_deep",
    "regress_similarity",
)
THIN_DEEP_STARTS = {
    "random": thin_deep_steps.thin_deep_student,
    "ridge": thin_deep_steps.ridge_student,
}


class Step(NamedTuple):
    """One resumable piece of a run.

    Attributes:
        name: Folder under `stages/`.
        part: Part of the budget.
        action: Called with that folder, empty.
        row: What the step's result is a score row of, if it is one: `name`, `kind`
            ("teacher", "assistant", "closed_form", "untrained" or "stage"), `student`
            and `stage`.
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
    assistant = ""
    if run.recipe.assistant.source != "none":
        assistant, own = _assistant(run)
        steps += own
    steps += _reductions(run)
    for name, settings in run.recipe.student.each().items():
        steps += _student(run, name, settings, assistant)
    return [step for step in steps if step.wanted]


def perform(
    run: Run, step: Step, marks: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Do a step unless it is done, from a seed of its own; return its record."""
    import keras

    keras.utils.set_random_seed(run.seed(step.seed or step.name))
    return run.folder.perform(step.name, step.action, marks)


def make_deterministic() -> None:
    """Have TensorFlow choose kernels whose sums do not depend on timing."""
    import keras

    if keras.backend.backend() == "tensorflow":
        from keras_msd.stages._tensorflow import make_deterministic as switch_on

        switch_on()


def table_widths(run: Run) -> list[int]:
    """Return the widths of the students' word tables below the teacher's width."""
    hidden = run.recipe.assistant.hidden_dim or run.teacher.dim
    students = run.recipe.student.each().values()
    widths = {one.bottleneck_dim or one.hidden_dim or hidden for one in students}
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
        partial(end_steps.score_teacher, run),
        {"name": "teacher", "kind": "teacher"},
    )
    yield Step("tokenizer", "tokens", partial(data_steps.take_tokenizer, run))


def _closed_forms(run: Run) -> Iterator[Step]:
    ours = run.recipe
    wanted = ours.starts.closed_form
    started = ours.assistant.source == "new" and (
        ours.assistant.start != "random" or ours.assistant.word_branch
    )
    students = ours.student.each().values()
    if wanted or started or any(one.start == "ridge" for one in students):
        yield Step("ridge", "closed_forms", partial(start_steps.fit_table, run))
    if wanted:
        for width in (None, *table_widths(run)):
            name = "closed_form" if width is None else f"closed_form_b{width}"
            make = partial(start_steps.closed_form, run, width=width)
            yield Step(name, "closed_forms", make)
            row = "closed form" if width is None else f"closed form, B {width}"
            yield _score(run, name, {"name": row, "kind": "closed_form"})


def _assistant(run: Run) -> tuple[str, list[Step]]:
    steps = [
        Step(
            "assistant_start",
            "closed_forms",
            partial(start_steps.start_assistant, run),
        )
    ]
    last = "assistant_start"
    if not run.recipe.stages.teach_assistant.skip:
        row = {"name": "assistant before stage 1", "kind": "assistant"}
        steps.append(_score(run, last, row, full=False))
        settings = run.recipe.stages.teach_assistant
        steps.append(_stage(run, "teach_assistant", "", last, None, settings))
        last = "teach_assistant"
    regression = run.recipe.stages.regress_similarity
    if not regression.skip and regression.of == "assistant":
        row = {"name": "assistant before STS", "kind": "assistant"}
        steps.append(_score(run, last, row))
        steps.append(_stage(run, "regress_similarity", "", last, None, regression))
        last = "regress_similarity"
    row = {"name": "assistant", "kind": "assistant"}
    steps.append(_score(run, last, row))
    steps.append(_keep(run, last, "assistant"))
    if run.recipe.student.kind == "none":
        steps += _use(run, last, "assistant")
    return last, steps


def _reductions(run: Run) -> Iterator[Step]:
    settings = run.recipe.stages.reduce_teacher
    for width in () if settings.skip else settings.widths:
        step = f"{REDUCED}_{width}"
        yield _reduction(run, step, width=width)
        score = partial(end_steps.score_reduction, run, step=step)
        row = {"name": f"teacher, {width} dimensions", "kind": step}
        yield Step(SCORE + step, "evaluation", score, row)


def _reduction(run: Run, step: str, **width: Any) -> Step:
    settings = run.recipe.stages.reduce_teacher
    make = partial(thin_deep_steps.reduce_teacher, run, settings=settings, **width)
    return Step(step, "stages", make, seed="reduce_teacher")


def _student(
    run: Run, name: str, settings: StudentSettings, assistant: str
) -> Iterator[Step]:
    suffix = name.removeprefix("student")
    last = f"untrained{suffix}"
    origin = assistant if settings.layers == "trained" else "assistant_start"
    each = {
        stage: settings.stage(stage, getattr(run.recipe.stages, stage))
        for stage in STUDENT_STAGES
    }
    if settings.kind == "thin_deep":
        wide = each["teach_thin_deep"].feature == "distillation_first"
        dim = run.teacher.dim if wide else None
        shape = thin_deep_steps.thin_deep_shape(settings)
        start = THIN_DEEP_STARTS[settings.start]
        make = partial(start, run, shape=shape, output_dim=dim)
    else:
        make = partial(
            start_steps.untrained_student, run, settings=settings, assistant=origin
        )
    yield Step(last, "closed_forms", make, seed="untrained")
    row = {"name": f"{name}, untrained", "kind": "untrained", "student": name}
    yield _score(run, last, row, full=False)
    if settings.start == "svd" and settings.bottleneck_dim is not None:
        make = partial(start_steps.start_student, run, student=last, assistant=origin)
        last = f"student_start{suffix}"
        yield Step(last, "closed_forms", make, seed="student_start")
        row |= {"name": f"{name}, SVD start", "stage": "svd_start"}
        yield _score(run, last, row, full=False)
    if run.recipe.stages.regress_similarity.of == "assistant":
        del each["regress_similarity"]
    stages = [stage for stage in each if not each[stage].skip]
    for place, stage in enumerate(stages, 1):
        if stage == "teach_thin_deep" and each[stage].feature == "synchronized":
            yield _reduction(run, REDUCED + suffix, like=last)
        train_it = partial(_stage, run, stage, suffix, settings=each[stage])
        if getattr(each[stage], "branch_alone", False):
            steps = _branch_alone(run, suffix, last, train_it)
        else:
            steps = [train_it(start=last, assistant=assistant)]
        yield from steps
        last = steps[-1].name
        row |= {"name": f"{name}, {stage}", "kind": "stage", "stage": stage}
        yield _score(run, last, row, stages[place:] in ([], ["regress_similarity"]))
    yield _keep(run, last, name)
    yield from _use(run, last, name, first=not suffix)


def _use(run: Run, last: str, name: str, first: bool = True) -> Iterator[Step]:
    """Yield what is done with an encoder that is finished."""
    if not run.recipe.evaluate.artefacts:
        return
    yield Step(f"{SPEED}{name}", "evaluation", partial(end_steps.speed, run, step=last))
    if first:
        neighbours = partial(end_steps.neighbours, run, step=last)
        yield Step("neighbours", "evaluation", neighbours)
    if end_steps.can_export():
        export = partial(end_steps.export, run, step=last, name=name)
        yield Step(EXPORT + name, "evaluation", export)


def _branch_alone(
    run: Run, suffix: str, student: str, make: Callable[..., Step]
) -> list[Step]:
    """Return the steps that take a student's word branch out, train and put it back."""
    branch = f"branch{suffix}"
    stage = make(start=branch, assistant=None)
    take = partial(start_steps.take_branch, run, step=student)
    give = partial(start_steps.give_branch, run, step=student, branch=stage.name)
    return [
        Step(branch, "closed_forms", take, seed="branch"),
        stage,
        Step(f"branch_back{suffix}", "closed_forms", give, seed="branch_back"),
    ]


def _stage(
    run: Run,
    name: str,
    suffix: str,
    start: str,
    assistant: str | None,
    settings: StageSettings | RegressSettings,
) -> Step:
    step = name + suffix
    action: partial[dict[str, Any]]
    if isinstance(settings, RegressSettings):
        action = partial(
            regress, run, step=step, name=name, settings=settings, start=start
        )
        return Step(step, "stages", action, seed=name)
    action = partial(
        train_with_curve if settings.scored else train,
        run,
        step=step,
        name=name,
        settings=settings,
        start=start,
        assistant=assistant,
    )
    if isinstance(settings, ThinDeepSettings) and settings.feature == "synchronized":
        action = partial(action, reduction=REDUCED + suffix)
    return Step(step, "stages", action, seed=name)


def _score(run: Run, step: str, row: Mapping[str, str], full: bool = True) -> Step:
    rule = run.recipe.evaluate.intermediate
    every = full or rule == "full"
    action = partial(end_steps.score, run, step=step, full=every, others=full)
    wanted = full or rule != "none"
    return Step(SCORE + step, "evaluation", action, dict(row), wanted=wanted)


def _keep(run: Run, step: str, name: str) -> Step:
    return Step(f"keep_{name}", "stages", partial(end_steps.keep, run, step, name))
