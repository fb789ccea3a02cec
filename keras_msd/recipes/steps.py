"""The steps of a run in order, each with what it reads and its part of the budget."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras

from keras_msd.recipes import data, finish, starts
from keras_msd.recipes.cache import Step
from keras_msd.recipes.recipe import StudentSettings
from keras_msd.recipes.resources import TRIMMED, Run
from keras_msd.recipes.runner import EXPORT, SPEED
from keras_msd.recipes.stages import STAGE_KINDS, StageKind
from keras_msd.recipes.train import fit
from keras_msd.recipes.updates import MOST_PIECES, fits_table, student_stages

SCORE, REDUCED = "score_", "reduced"
TOKENS, CLOSED, STAGES, SCORES = "tokens", "closed_forms", "stages", "evaluation"
TEACHER, TEXTS = "teacher_vectors", ("pairs", "tokenizer")
GUIDED = (*TEXTS, TEACHER)


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
    recipe, pairs = run.recipe, ("pairs",)
    trims = recipe.assistant.trim
    named = (lambda: run.named_assistant) if recipe.assistant.named else None
    of_data = partial(Step, uses=("data",))
    if recipe.data.kind == "examples":
        yield of_data("example_data", TOKENS, data.write_example_data)
    yield of_data("pairs", TOKENS, data.take_pairs, files=run.training_files)
    make = partial(Step, make=data.take_teacher_vectors, reads=pairs, uses=("teacher",))
    yield make(TEACHER, "teacher", encoder=lambda: run.teacher, shared=False)
    row = {"name": "teacher", "kind": "teacher"}
    yield _scores(run, f"{SCORE}teacher", finish.score_teacher, row, reads=(TEACHER,))
    if trims:
        make = partial(Step, reads=pairs, uses=("assistant",), encoder=named)
        yield make(TRIMMED, TOKENS, data.trim_assistant)
    reads = (TRIMMED, TEACHER) if recipe.tokenizer.source == "teacher" else (TRIMMED,)
    yield Step(
        "tokenizer",
        TOKENS,
        data.take_tokenizer,
        reads=(*pairs, *reads),
        uses=("tokenizer",),
        encoder=None if trims else named,
    )


def _closed_forms(run: Run) -> Iterator[Step]:
    # `check` refuses starts with more pieces.
    recipe = run.recipe
    if not fits_table(recipe) or run.fitted_pieces > MOST_PIECES:
        return
    grows = recipe.assistant.start == "grow"
    settings = {"ridge": recipe.starts.ridge, "grows": grows}
    yield Step("ridge", CLOSED, starts.fit_table, settings, reads=GUIDED)
    for width in (None, *table_widths(run)) if recipe.starts.closed_form else ():
        name = "closed_form" if width is None else f"closed_form_b{width}"
        make = partial(Step, reads=("tokenizer", "ridge"), seed=name)
        yield make(name, CLOSED, starts.closed_form, {"width": width})
        row = "closed form" if width is None else f"closed form, B {width}"
        yield _score(run, name, {"name": row, "kind": "closed_form"})


def _assistant(run: Run) -> tuple[dict[str, str], list[Step]]:
    """Return the steps that leave it before and after stage 1, and all of its steps."""
    recipe = run.recipe
    last = untrained = "assistant_start"
    start = Step(
        last,
        CLOSED,
        starts.start_assistant,
        reads=(*GUIDED, TRIMMED, "ridge"),
        uses=("assistant", "starts"),
        encoder=(lambda: run.named_assistant) if recipe.assistant.named else None,
        seed=last,
    )
    steps = [start]
    for kind in STAGE_KINDS.values():
        if kind.name == "teach_assistant":
            untrained = last
        settings = recipe.stages[kind.name]
        if kind.trained(settings) == "assistant" and not settings.skip:
            before = f"assistant before {kind.short or kind.name}"
            row = {"name": before, "kind": "assistant"}
            steps.append(_score(run, last, row, full=not kind.reads_pairs()))
            steps.append(_stage(run, kind, "", last, None, settings))
            last = kind.name
    then = partial(Step, part=CLOSED, reads=TEXTS)
    given: dict[str, Any]
    if (smoothing := recipe.inverse_frequency) is not None:
        row = {"name": "assistant before weights by frequency", "kind": "assistant"}
        given = {"settings": {"smoothing": smoothing}, "inputs": {"step": last}}
        steps.append(_score(run, last, row))
        steps.append(then("weigh_rows", make=starts.weigh_rows, **given))
        last = "weigh_rows"
    if dims := recipe.matryoshka_dims:
        given = {"settings": {"dims": dims}, "inputs": {"step": last}}
        last = "order_dimensions"
        steps.append(then(last, make=starts.order_dimensions, seed=last, **given))
    steps.append(_score(run, last, {"name": "assistant", "kind": "assistant"}))
    steps.append(_keep(last, "assistant"))
    if recipe.student.kind == "none":
        steps += _trims(run, last, "assistant")
        steps += _use(run, last, "assistant")
    return {"trained": last, "untrained": untrained}, steps


def _reductions(run: Run) -> Iterator[Step]:
    settings = run.recipe.stages["reduce_teacher"]
    for width in () if settings.skip else settings.widths:
        step = f"{REDUCED}_{width}"
        yield _reduction(run, step, width=width)
        row = {"name": f"teacher, {width} dimensions", "kind": step}
        given: dict[str, Any] = {"inputs": {"step": step}, "reads": (TEACHER,)}
        yield _scores(run, SCORE + step, finish.score_reduction, row, **given)


def _reduction(
    run: Run, step: str, width: int | None = None, like: str | None = None
) -> Step:
    stages = run.recipe.stages
    settings = {"settings": stages["reduce_teacher"], "width": width}
    settings["pairs"] = stages["teach_thin_deep"]
    make = partial(Step, reads=GUIDED, seed="reduce_teacher")
    return make(step, STAGES, starts.reduce_teacher, settings, {"like": like})


def _student(
    run: Run, name: str, settings: StudentSettings, assistants: Mapping[str, str]
) -> Iterator[Step]:
    suffix = name.removeprefix("student")
    origin, guide = assistants[settings.layers], assistants[settings.guide]
    stages = dict(student_stages(run.recipe, settings))
    last = f"untrained{suffix}"
    make = partial(Step, last, CLOSED, reads=TEXTS, seed="untrained")
    if settings.kind == "thin_deep":
        feature = stages[STAGE_KINDS["teach_thin_deep"]].feature
        dim = run.teacher.dim if feature == "distillation_first" else None
        given = {"shape": starts.thin_deep_shape(settings), "output_dim": dim}
        if settings.start == "ridge":
            reads = (*TEXTS, "ridge")
            yield make(make=starts.ridge_student, settings=given, reads=reads)
        else:
            yield make(make=starts.thin_deep_student, settings=given)
    else:
        fields = {"unit_layers", "repeats", "bottleneck_dim", "start"}
        given, inputs = settings.model_dump(include=fields), {"assistant": origin}
        yield make(make=starts.untrained_student, settings=given, inputs=inputs)
    row = {"name": f"{name}, untrained", "kind": "untrained", "student": name}
    yield _score(run, last, row, full=False)
    begun = settings.start
    if begun in starts.FROM_ASSISTANT and settings.bottleneck_dim is not None:
        given = {"start": begun, "branch_scale": run.recipe.starts.branch_scale}
        inputs = {"student": last, "assistant": origin}
        last = f"student_start{suffix}"
        make = partial(Step, reads=TEXTS, seed="student_start")
        yield make(last, CLOSED, starts.start_student, given, inputs)
        row["name"] = f"{name}, {starts.FROM_ASSISTANT[begun]} start"
        row["stage"] = f"{begun}_start"
        yield _score(run, last, row, full=False)
    rest = list(stages)
    for kind, of_stage in stages.items():
        rest.remove(kind)
        if getattr(of_stage, "feature", "") == "synchronized":
            yield _reduction(run, REDUCED + suffix, like=last)
        if getattr(of_stage, "branch_alone", False):
            steps = _branch_alone(run, kind, suffix, last, of_stage)
        else:
            steps = [_stage(run, kind, suffix, last, guide, of_stage)]
        yield from steps
        last = steps[-1].name
        row |= {"name": f"{name}, {kind.name}", "kind": "stage", "stage": kind.name}
        full = not any(later.reads_pairs() for later in rest)
        yield _score(run, last, row, full)
    yield _keep(last, name)
    yield from _trims(run, last, name)
    compared = None if settings.kind == "thin_deep" else guide
    yield from _use(run, last, name, first=not suffix, assistant=compared)


def _trims(run: Run, last: str, name: str) -> Iterator[Step]:
    """Yield what makes, scores and keeps a finished encoder's smaller vocabularies."""
    for trim, settings in (run.recipe.trim or {}).items():
        step, given = f"trim_{name}_{trim}", ({"settings": settings}, {"step": last})
        yield Step(step, CLOSED, finish.trim, *given, reads=("pairs",))
        yield _score(run, step, {"name": f"{name}, trimmed, {trim}", "kind": "trimmed"})
        yield _keep(step, f"{name}_trimmed_{trim}")


def _use(
    run: Run, last: str, name: str, first: bool = True, assistant: str | None = None
) -> Iterator[Step]:
    """Yield what is done with an encoder that is finished.

    The first student's translations are compared with those of its assistant.
    """
    if not run.recipe.evaluate.artefacts:
        return
    alone = partial(Step, part=SCORES, inputs={"step": last}, shared=False)
    yield alone(f"{SPEED}{name}", make=finish.speed)
    if first:
        top = {"top": run.recipe.evaluate.neighbours}
        yield alone("neighbours", make=finish.neighbours, settings=top)
        if assistant:
            inputs = {"step": last, "assistant": assistant}
            yield alone("worse", make=finish.worse, settings=top, inputs=inputs)
    if finish.can_export():
        yield alone(EXPORT + name, make=finish.export, settings={"name": name})


def _branch_alone(
    run: Run, kind: type[StageKind], suffix: str, student: str, settings: Any
) -> list[Step]:
    """Return the steps that take a student's word branch out, train and put it back."""
    branch, back, name = f"branch{suffix}", f"branch_back{suffix}", f"student{suffix}"
    make = partial(Step, part=CLOSED, reads=TEXTS)
    inputs = {"step": student}
    take = make(branch, make=starts.take_branch, inputs=inputs, seed="branch")
    stage = _stage(run, kind, suffix, branch, None, settings)
    inputs = {"step": student, "branch": stage.name}
    give = make(back, make=starts.give_branch, inputs=inputs, seed="branch_back")
    row = {"name": f"{name}, branch alone", "kind": "branch", "student": name}
    scored = [_score(run, stage.name, row)] if run.recipe.evaluate.branches else []
    return [take, stage, *scored, give]


def _stage(
    run: Run,
    kind: type[StageKind],
    suffix: str,
    start: str,
    assistant: str | None,
    settings: Any,
) -> Step:
    step = kind.name + suffix
    synchronized = getattr(settings, "feature", "") == "synchronized"
    # Which half they are chosen on, and what a curve is of, is said in `[evaluate]`.
    curve, chosen = getattr(settings, "scored", None), not kind.reads_pairs()

    def files() -> list[Path]:
        scored = run.evaluation_files() if curve else []
        return [*kind.files(run, settings), *scored]

    given = {"step": step, "name": kind.name, "settings": settings}
    inputs = {
        "start": start,
        "assistant": assistant if kind.needs_assistant else None,
        "reduction": REDUCED + suffix if synchronized else None,
    }
    return Step(
        step,
        STAGES,
        fit,
        given | {"precision": run.precision},
        inputs,
        reads=GUIDED,
        uses=("distribute", "evaluate") if chosen or curve else ("distribute",),
        files=files,
        seed=kind.name,
    )


def _score(run: Run, step: str, row: Mapping[str, str], full: bool = True) -> Step:
    rule = run.recipe.evaluate.intermediate
    settings = {"full": full or rule == "full", "others": full}
    wanted, inputs = full or rule != "none", {"step": step}
    given: dict[str, Any] = {"settings": settings, "inputs": inputs, "wanted": wanted}
    return _scores(run, SCORE + step, finish.score, row, **given)


def _scores(
    run: Run, name: str, make: Any, row: Mapping[str, str], **more: Any
) -> Step:
    """Return a step that scores something on the run's evaluation sets."""
    uses, files = ("data", "evaluate"), run.evaluation_files
    return Step(name, SCORES, make, uses=uses, files=files, row=dict(row), **more)


def _keep(step: str, name: str) -> Step:
    settings, inputs = {"name": name}, {"step": step}
    return Step(f"keep_{name}", STAGES, finish.keep, settings, inputs, shared=False)
