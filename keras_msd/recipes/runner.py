"""Run a recipe: the list of its steps, each that is not done yet, then the report."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.distribute import (
    device_settings,
    distribution,
    make_deterministic,
)
from keras_msd.io.files import clear_leftovers
from keras_msd.progress import place
from keras_msd.recipes import outputs, prepare, processes
from keras_msd.recipes.cache import RunFolder, Step, StepName, locked, perform
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import TRIMMED, Run, default_store_dir
from keras_msd.recipes.settings import Recipe, StudentSettings
from keras_msd.recipes.train import check_stages, fit, stage_data
from keras_msd.stages.table import STAGES
from keras_msd.starts.width import PRUNING_TEXTS

WATCHED_S = 30.0  # a page of a longer run is written anew after a score
SCORE = "score_"  # begins the names of steps
TEACHER, TEXTS = "teacher_vectors", ("pairs", "tokenizer")
GUIDE_VECTORS = "guide_vectors_"
GUIDED = (*TEXTS, TEACHER)
FIELDS = ("reads", "depends", "files", "seed", "row", "shared")  # of `Step`


def run(
    recipe: str | Path | Recipe,
    out_dir: str | Path | None = None,
    scale: str | None = None,
    data_dir: str | Path | Sequence[str | Path] | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    share_steps: bool = False,
    checkpoint_minutes: float = 5.0,
    profile: bool = False,
    tensorboard: bool = False,
    repair: bool = False,
) -> dict[str, Any]:
    """Run a recipe, or resume its run where it was stopped.

    The report of a run that takes longer is written anew after each score, to look on.
    The same recipe on the same machine leaves the same bytes, however often the run was
    stopped. For that, every step sets Keras' random state, and on a processor
    TensorFlow's kernels are deterministic from here on. On a GPU the recipe's setting
    `deterministic` asks for it.

    With `distribute.strategy` "data_parallel" stages are spread over all devices. Where
    JAX has several processes, all call this with the same arguments and folders on a
    disk that they share: the first does every step, the others take part in stages.

    Args:
        recipe: A recipe's name, the path of a TOML file, or a `Recipe`.
        out_dir: The run's own folder; by default `runs/<name>`.
        scale: "smoke", "demo", "lab", "backbone" or "paper"; `None` takes the recipe's
            default.
        data_dir: Folder with `parallel/`, `sts/` and `tatoeba/`, for recipes that read
            one; or several: of the others only `parallel/train/` and `lexicon/` are
            read.
        store_dir: Parent of the guide stores; by default `$KERAS_MSD_CACHE`, else the
            user's cache folder.
        overrides: Values by dotted key over those of the recipe.
        share_steps: Take steps that another run left under `store_dir/steps`, and leave
            one's own there. The scores are the same; timings.json says what was taken.
        checkpoint_minutes: Time between two checkpoints of a stage.
        profile: Whether stages say what their time went into, on stderr and in
            profile.json of their folders.
        tensorboard: Whether stages write their terms and scores for TensorBoard, under
            `tensorboard/`; it needs TensorFlow, under JAX too.
        repair: Whether steps whose files were damaged are done again, with a warning.

    Returns:
        What scores.json holds (`recipe`, `scale`, `rows`, `measured`, and `part` where
        a half of each set is scored), and `folder`, `timings` (as in timings.json), the
        paths of `artefacts` and of the `report`.

    Raises:
        InputError: The recipe, the folders or the files in them are not as they must
            be; a step in the folder was made from other settings, files or versions,
            or another process works on it; a file of a step that is done was damaged.
            Steps that are done stay done.

    Example:
        >>> quick = {"data.pairs_per_language": 60, "evaluate.artefacts": False}
        >>> result = msd.recipes.run("msd_labse", "run", overrides=quick)
        >>> [row["name"] for row in result["rows"]]
        ['teacher', 'assistant']
    """
    recipe = load_recipe(recipe, scale, overrides)
    where = Path(out_dir or Path("runs") / recipe.recipe.name)
    spread = distribution(recipe.distribute.strategy)
    if "precision" not in recipe.model_fields_set:
        usual = {"precision": device_settings().precision}
        recipe = recipe.model_copy(update=usual)
    if profile and spread.replicas > 1:
        raise InputError(
            "The parts of an update are measured on one device. Received: "
            f"profile=True, {spread.replicas} devices. Leave one of both out."
        )
    data = [data_dir] if isinstance(data_dir, str | Path) else data_dir or ()
    work = Run(
        recipe,
        RunFolder(where, recipe, repair),
        [Path(it) for it in data],
        Path(store_dir or default_store_dir()),
        checkpoint_minutes,
        profile,
        tensorboard and spread.process == 0,
        spread,
    )
    make_deterministic(recipe.deterministic)
    if spread.process:
        return processes.follow(work, steps_of)
    return _perform_steps(work, share_steps)


def _perform_steps(work: Run, share_steps: bool) -> dict[str, Any]:
    """Do every step that is not done, with the other processes if there are any."""
    recipe, folder, where = work.recipe, work.folder, work.folder.path
    shared = work.store_dir / "steps" if share_steps else None
    folder.check()
    prepare.check(work)  # leaves no folder where something is missing
    with locked(where):
        clear_leftovers(where)
        folder.claim()
        about = recipe.recipe
        if about.cost and recipe.scale == about.default_scale != "smoke":
            print(f"Cost of {about.name}: {about.cost}.", file=sys.stderr)
        steps, written = steps_of(work), time.monotonic()
        records: dict[str, dict[str, Any]] = {}
        keys: dict[str, str] = {}
        for number, step in enumerate(steps, 1):
            with place(f"step {number} of {len(steps)}"):
                records[step.name] = perform(work, step, keys, shared)
            if step.name == "pairs":
                check_stages(work)
            if step.row and time.monotonic() - written > WATCHED_S:
                outputs.write_summary(recipe, where, steps[:number], records)
                written = time.monotonic()
        result = outputs.write_summary(recipe, where, steps, records)
    processes.end(work, result)
    return result


# The list of steps.


def steps_of(run: Run) -> list[Step]:
    """Return every step of a run; those that are done are skipped when it runs."""
    steps = Steps(run)
    steps.add_data()
    steps.add_closed_forms()
    left = steps.add_assistant() if run.recipe.assistant.source != "none" else {}
    steps.add_reductions()
    for name, settings in run.recipe.student.each().items():
        steps.suffix = name.removeprefix("student")
        steps.add_student(name, settings, left)
    return steps.found


class Steps:
    """Collects the steps of a run in `found`.

    `suffix` ends the names of the steps that make a further student.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.recipe, self.suffix = run, run.recipe, ""
        self.found: list[Step] = []

    def add(self, name: str, part: str, make: Any, /, **more: Any) -> StepName:
        """Add a step and return its name, as later steps take it.

        What is no field of `Step`, such as `reads`, is an argument of `make`.
        """
        fields = {field: more.pop(field) for field in FIELDS if field in more}
        self.found.append(Step(name, part, make, more, **fields))
        return StepName(name)

    def add_start(self, name: str, make: Any, /, **more: Any) -> StepName:
        """Add a step that makes an encoder without training it."""
        more = {"reads": TEXTS, "seed": name, **more}
        return self.add(name + self.suffix, "closed_forms", make, **more)

    def add_scores(
        self, name: str, make: Any, row: Mapping[str, str], /, **more: Any
    ) -> None:
        """Add a step that scores something on the run's evaluation sets."""
        more["depends"] = {"data": self.recipe.data, "evaluate": self.recipe.evaluate}
        more |= {"files": self.run.evaluation_files, "row": dict(row)}
        self.add(SCORE + name, "evaluation", make, **more)

    def add_score(
        self, step: StepName, row: Mapping[str, str], full: bool = True
    ) -> None:
        """Add a score row of the encoder that a step left, if the recipe wants it.

        With `full` it gets all scores, whatever `evaluate.intermediate` says.
        """
        rule = self.recipe.evaluate.intermediate
        if full or rule != "none":
            whole = full or rule == "full"
            self.add_scores(
                step, outputs.score, row, step=step, full=whole, others=full
            )

    def add_vectors(self, step: str, name: str | None, depends: Any) -> None:
        """Add the vectors of the teacher, or of the one in `[guides.<name>]`."""
        options = {"reads": ("pairs",), "depends": depends, "shared": False}
        self.add(step, "teacher", prepare.take_vectors, guide=name, **options)

    def add_data(self) -> None:
        """Add pairs, teacher's embeddings, tokenizer."""
        run, recipe = self.run, self.recipe
        of_data, named = {"data": recipe.data}, run.named_assistant
        if recipe.data.kind == "examples":
            make = prepare.write_example_data
            self.add("example_data", "tokens", make, depends=of_data)
        files = run.training_files
        self.add("pairs", "tokens", prepare.take_pairs, depends=of_data, files=files)
        teacher = {"teacher": recipe.teacher, "encoder": run.teacher.fingerprint}
        self.add_vectors(TEACHER, None, teacher)
        for name, guide in recipe.guides.items():
            parts = [it.fingerprint for it in run.guide_parts[name]]
            depends = {"guide": guide, "parts": parts}
            self.add_vectors(GUIDE_VECTORS + name, name, depends)
        row = {"name": "teacher", "kind": "teacher"}
        self.add_scores("teacher", outputs.score_teacher, row, reads=(TEACHER,))
        # What a step depends on that reads the assistant that exists.
        self.existing = {"encoder": named.fingerprint if named else None}
        of_assistant = {"assistant": recipe.assistant, **self.existing}
        if trim := recipe.assistant.trim:
            options = {"settings": {"keep": trim.pieces}, "depends": of_assistant}
            self.add(TRIMMED, "tokens", prepare.trim, reads=("pairs",), **options)
        before = (TEACHER,) if recipe.tokenizer_source == "teacher" else ()
        self.add(
            "tokenizer",
            "tokens",
            prepare.take_tokenizer,
            reads=("pairs", TRIMMED, *before),
            depends={"tokenizer": recipe.tokenizer, **self.existing},
        )

    def add_closed_forms(self) -> None:
        """Add the ridge regression and the closed forms that are scored."""
        recipe, dim = self.recipe, self.run.teacher.dim
        # `check` refuses starts with more pieces.
        if not recipe.fits_table or self.run.pieces > prepare.MOST_PIECES:
            return
        options = {"ridge": recipe.starts.ridge, "reads": GUIDED}
        self.add("ridge", "closed_forms", prepare.fit_table, **options)
        if not recipe.starts.closed_form:
            return
        hidden, students = recipe.assistant.hidden_dim or dim, recipe.student.each()
        own = (it.bottleneck_dim or it.hidden_dim or hidden for it in students.values())
        widths = {*own, *recipe.starts.widths}
        narrower = sorted((width for width in widths if width < dim), reverse=True)
        for width in (None, *narrower):
            name = "closed_form" if width is None else f"closed_form_b{width}"
            read = ("tokenizer", "ridge")
            step = self.add_start(name, prepare.closed_form, reads=read, width=width)
            row = "closed form" if width is None else f"closed form, B {width}"
            self.add_score(step, {"name": row, "kind": "closed_form"})

    def add_assistant(self) -> dict[str, StepName]:
        """Add what makes the assistant; return the steps after and before stage 1."""
        recipe, kind = self.recipe, {"kind": "assistant"}
        depends = {"assistant": recipe.assistant, "starts": recipe.starts}
        last = untrained = self.add_start(
            "assistant_start",
            prepare.start_assistant,
            reads=(*GUIDED, TRIMMED, "ridge"),
            depends=depends | self.existing,
        )
        order = list(STAGES)
        for name, settings in recipe.stages_of().items():
            label = f"assistant before {STAGES[name].label or name}"
            full = STAGES[name].rows != "pairs"
            self.add_score(last, {"name": label, **kind}, full)
            last = self.add_stage(name, settings, last)
            if order.index(name) < order.index("teach_assistant"):
                untrained = last
        if smoothing := recipe.inverse_frequency:
            row = {"name": "assistant before weights by frequency", **kind}
            self.add_score(last, row)
            weigh = prepare.weigh_rows
            last = self.add_start("weigh_rows", weigh, step=last, smoothing=smoothing)
        if dims := recipe.matryoshka_dims:
            turn = prepare.order_dimensions
            last = self.add_start("order_dimensions", turn, step=last, dims=dims)
        self.add_score(last, {"name": "assistant", **kind})
        if recipe.student.kind == "none":
            self.add_finished(last, "assistant")
        else:
            self.add_keep(last, "assistant")
        return {"trained": last, "untrained": untrained}

    def add_reductions(self) -> None:
        """Add the dense layers after the teacher that are scored."""
        options = {"reads": GUIDED, "seed": "reduce_teacher"}
        settings, make = self.recipe.reduction, prepare.reduce_teacher
        settings = settings.with_values({"widths": ()})  # each is a step
        for width in self.recipe.reduction.widths:
            name, more = f"reduced_{width}", {"settings": settings, "width": width}
            step = self.add(name, "stages", make, **more, **options)
            row = {"name": f"teacher, {width} dimensions", "kind": step}
            score = outputs.score_reduction
            self.add_scores(step, score, row, step=step, reads=(TEACHER,))

    def add_student(
        self, name: str, settings: StudentSettings, left: Mapping[str, StepName]
    ) -> None:
        """Add what makes one student, from what `add_assistant` returned."""
        stages, begun = self.recipe.stages_of(settings), settings.start
        whole, guide = left.get(settings.layers), left.get(settings.guide)
        row = {"name": f"{name}, untrained", "kind": "untrained", "student": name}
        if settings.measured:
            make, count = prepare.keep_layers, settings.unit_layers
            whole = self.add_start("shallow", make, assistant=whole, count=count)
        origin = whole
        if kept := settings.pruned:
            kept["count"] = PRUNING_TEXTS
            make = prepare.prune_width
            origin = self.add_start("pruned", make, assistant=origin, **kept)
        last = self.add_untrained(settings, stages, origin)
        self.add_score(last, row, full=False)
        if begun in prepare.FROM_ASSISTANT and settings.bottleneck_dim is not None:
            last = self.add_start(
                "student_start",
                prepare.start_student,
                student=last,
                assistant=origin,
                start=begun,
            )
            row["name"] = f"{name}, {prepare.FROM_ASSISTANT[begun]} start"
            row["stage"] = f"{begun}_start"
            self.add_score(last, row, full=False)
        if settings.refit:
            last = self.add_start(
                "refitted",
                prepare.refit_layers,
                student=last,
                assistant=whole,
                count=settings.refit,
            )
            row |= {"name": f"{name}, refitted layers", "stage": "refitted"}
            self.add_score(last, row, full=False)
        for done, (stage, of_stage) in enumerate(stages.items(), 1):
            last = self.add_stage(stage, of_stage, last, guide)
            row |= {"name": f"{name}, {stage}", "kind": "stage", "stage": stage}
            later = [STAGES[it].rows for it in list(stages)[done:]]
            self.add_score(last, row, full="pairs" not in later)
        self.add_finished(last, name)

    def add_untrained(
        self,
        settings: StudentSettings,
        stages: Mapping[str, Any],
        origin: StepName | None,
    ) -> StepName:
        """Add the model that a student's stages train: cut from an assistant, or new.

        `origin` left the assistant; a thin, deep student has none.
        """
        if settings.kind == "recurrent":
            fields = {"unit_layers", "repeats", "bottleneck_dim", "start"}
            shape = settings.model_dump(include=fields | {"unit_from", "max_length"})
            if settings.measured:  # `origin` has no other layers
                shape["unit_from"] = "first"
            make = prepare.untrained_student
            return self.add_start("untrained", make, assistant=origin, **shape)
        ridge = settings.start == "ridge"
        dims = (it.student_dim(self.run.teacher.dim) for it in stages.values())
        return self.add_start(
            "untrained",
            prepare.thin_deep_student,
            reads=(*TEXTS, "ridge") if ridge else TEXTS,
            shape=prepare.thin_deep_shape(settings),
            output_dim=next(filter(None, dims), None),
            ridge=ridge,
        )

    def add_stage(
        self,
        name: str,
        settings: Any,
        start: StepName,
        assistant: StepName | None = None,
    ) -> StepName:
        """Add a stage that trains the encoder that the step `start` left."""
        record, arrays = STAGES[name], None
        depends: dict[str, Any] = {"distribute": self.recipe.distribute}
        if extra := record.extra_step(settings):
            arrays = self.add(
                extra.name + self.suffix,
                "stages",
                prepare.extra_array,
                reads=GUIDED,
                seed=extra.name,
                name=name,
                settings=settings,
                step=start,
            )
        curve = bool(getattr(settings, "scored", None))
        if curve or record.rows != "pairs":  # `[evaluate]` decides what is scored
            depends["evaluate"] = self.recipe.evaluate
        names = {name for name, _ in self.run.guides_of(settings).values()}
        further = [GUIDE_VECTORS + name for name in sorted(names)]

        def files() -> list[Path]:
            scored = self.run.evaluation_files() if curve else []
            return [*stage_data(self.run, name, settings).files(), *scored]

        return self.add(
            name + self.suffix,
            "stages",
            fit,
            reads=(*GUIDED, *further),
            depends=depends,
            files=files,
            seed=name,
            name=name,
            settings=settings,
            precision=self.run.precision,
            start=start,
            assistant=assistant if record.needs_assistant else None,
            arrays=arrays,
        )

    def add_keep(self, step: StepName, name: str) -> None:
        """Add the copy of a finished encoder in the run's folder."""
        self.add(f"keep_{name}", "stages", outputs.keep, shared=False, step=step)

    def add_finished(self, last: StepName, name: str) -> None:
        """Add a finished encoder, and what it is used for."""
        self.add_keep(last, name)
        if not self.recipe.evaluate.artefacts:
            return
        uses: dict[str, Any] = {
            f"speed_{name}": outputs.speed,
            f"export_{name}": outputs.export,
        }
        if not self.suffix:
            uses["neighbours"] = outputs.neighbours
        for use, make in uses.items():
            self.add(use, "evaluation", make, shared=False, step=last)
