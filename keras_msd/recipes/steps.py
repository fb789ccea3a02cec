"""The list of a run's steps, in order, with their settings and what they read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_msd.recipes import outputs, starts
from keras_msd.recipes.cache import Made, Step
from keras_msd.recipes.resources import TRIMMED, Run
from keras_msd.recipes.settings import StudentSettings
from keras_msd.recipes.stages import (
    STAGES,
    assistant_stages,
    fits_table,
    student_stages,
)
from keras_msd.recipes.train import fit, stage_data

SCORE = "score_"  # begins the names of steps
TEACHER, TEXTS = "teacher_vectors", ("pairs", "tokenizer")
GUIDE_VECTORS = "guide_vectors_"
GUIDED = (*TEXTS, TEACHER)
FIELDS = ("reads", "depends", "files", "seed", "row", "shared")  # of `Step`


def steps_of(run: Run) -> list[Step]:
    """Return every step of a run; those that are done are skipped when it runs."""
    steps = Steps(run)
    steps.add_data()
    steps.add_closed_forms()
    left = steps.add_assistant() if run.recipe.assistant.source != "none" else {}
    steps.add_reductions()
    for name, settings in run.recipe.student.each().items():
        steps.add_student(name, settings, left)
    return steps.found


def table_widths(run: Run) -> list[int]:
    """Return the dimensions of closed forms' word tables below the teacher's."""
    hidden = run.recipe.assistant.hidden_dim or run.teacher.dim
    students = run.recipe.student.each().values()
    widths = {it.bottleneck_dim or it.hidden_dim or hidden for it in students}
    widths |= {*run.recipe.starts.widths}
    return sorted((w for w in widths if w < run.teacher.dim), reverse=True)


class Steps:
    """Collects the steps of a run in `found`."""

    def __init__(self, run: Run) -> None:
        self.run, self.recipe = run, run.recipe
        self.found: list[Step] = []

    def add(self, name: str, part: str, make: Any, /, **more: Any) -> Made:
        """Add a step and return its name, as later steps take it.

        What is no field of `Step`, such as `reads`, is an argument of `make`.
        """
        fields = {field: more.pop(field) for field in FIELDS if field in more}
        self.found.append(Step(name, part, make, more, **fields))
        return Made(name)

    def add_start(self, name: str, make: Any, /, seed: str = "", **more: Any) -> Made:
        """Add a step that makes an encoder without training it."""
        more = {"reads": TEXTS, "seed": seed or name, **more}
        return self.add(name, "closed_forms", make, **more)

    def add_scores(
        self, name: str, make: Any, row: Mapping[str, str], /, **more: Any
    ) -> None:
        """Add a step that scores something on the run's evaluation sets."""
        more["depends"] = {"data": self.recipe.data, "evaluate": self.recipe.evaluate}
        more |= {"files": self.run.evaluation_files, "row": dict(row)}
        self.add(SCORE + name, "evaluation", make, **more)

    def add_score(self, step: Made, row: Mapping[str, str], full: bool = True) -> None:
        """Add a score row of the encoder that a step left, if the recipe wants it.

        Args:
            step: The step.
            row: As for `Step`.
            full: Whether it gets all scores, whatever `evaluate.intermediate` says.
        """
        rule = self.recipe.evaluate.intermediate
        if full or rule != "none":
            whole = full or rule == "full"
            self.add_scores(
                step, outputs.score, row, step=step, full=whole, others=full
            )

    def add_data(self) -> None:
        """Add pairs, teacher's embeddings, tokenizer."""
        run, recipe = self.run, self.recipe
        of_data, of_pairs = {"data": recipe.data}, ("pairs",)
        if recipe.data.kind == "examples":
            make = starts.write_example_data
            self.add("example_data", "tokens", make, depends=of_data)
        files = run.training_files
        self.add("pairs", "tokens", starts.take_pairs, depends=of_data, files=files)
        self.add(
            TEACHER,
            "teacher",
            starts.take_teacher_vectors,
            reads=of_pairs,
            depends={"teacher": recipe.teacher, "encoder": run.teacher.fingerprint},
            shared=False,
        )
        for name, guide in recipe.guides.items():
            parts = run.guide_parts[name]
            self.add(
                GUIDE_VECTORS + name,
                "teacher",
                starts.take_guide_vectors,
                reads=of_pairs,
                depends={"guide": guide, "parts": [it.fingerprint for it in parts]},
                shared=False,
                name=name,
            )
        row = {"name": "teacher", "kind": "teacher"}
        self.add_scores("teacher", outputs.score_teacher, row, reads=(TEACHER,))
        trim, given = starts.trim_assistant, self._assistant()
        if recipe.assistant.trim:
            self.add(TRIMMED, "tokens", trim, reads=of_pairs, depends=given)
        before = (TEACHER,) if recipe.tokenizer_source == "teacher" else ()
        self.add(
            "tokenizer",
            "tokens",
            starts.take_tokenizer,
            reads=("pairs", TRIMMED, *before),
            depends={"tokenizer": recipe.tokenizer, "encoder": given["encoder"]},
        )

    def _assistant(self) -> dict[str, Any]:
        """Return what a step depends on that reads the assistant that exists."""
        named = self.run.named_assistant
        found = named.fingerprint if named else None
        return {"assistant": self.recipe.assistant, "encoder": found}

    def add_closed_forms(self) -> None:
        """Add the ridge regression and the closed forms that are scored."""
        # `check` refuses starts with more pieces.
        run, recipe = self.run, self.recipe
        if not fits_table(recipe) or run.pieces > starts.MOST_PIECES:
            return
        self.add(
            "ridge",
            "closed_forms",
            starts.fit_table,
            reads=GUIDED,
            ridge=recipe.starts.ridge,
            grows=recipe.assistant.start == "grow",
        )
        for width in (None, *table_widths(run)) if recipe.starts.closed_form else ():
            name = "closed_form" if width is None else f"closed_form_b{width}"
            read = ("tokenizer", "ridge")
            step = self.add_start(name, starts.closed_form, reads=read, width=width)
            row = "closed form" if width is None else f"closed form, B {width}"
            self.add_score(step, {"name": row, "kind": "closed_form"})

    def add_assistant(self) -> dict[str, Made]:
        """Add what makes the assistant; return the steps after and before stage 1."""
        recipe, kind = self.recipe, {"kind": "assistant"}
        last = untrained = self.add_start(
            "assistant_start",
            starts.start_assistant,
            reads=(*GUIDED, TRIMMED, "ridge"),
            depends={**self._assistant(), "starts": recipe.starts},
        )
        order = list(STAGES)
        for name, settings in assistant_stages(recipe).items():
            label = f"assistant before {STAGES[name].label or name}"
            full = STAGES[name].rows != "pairs"
            self.add_score(last, {"name": label, **kind}, full)
            last = self.add_stage(name, settings, last)
            if order.index(name) < order.index("teach_assistant"):
                untrained = last
        if smoothing := recipe.inverse_frequency:
            row = {"name": "assistant before weights by frequency", **kind}
            self.add_score(last, row)
            weigh = starts.weigh_rows
            last = self.add_start("weigh_rows", weigh, step=last, smoothing=smoothing)
        if dims := recipe.matryoshka_dims:
            turn = starts.order_dimensions
            last = self.add_start("order_dimensions", turn, step=last, dims=dims)
        self.add_score(last, {"name": "assistant", **kind})
        self.add_keep(last, "assistant")
        if recipe.student.kind == "none":
            self.add_trims(last, "assistant")
            self.add_uses(last, "assistant")
        return {"trained": last, "untrained": untrained}

    def add_reductions(self) -> None:
        """Add the dense layers after the teacher that are scored."""
        settings = self.recipe.stages["reduce_teacher"]
        for width in () if settings.skip else settings.widths:
            step = self.add_reduction(f"reduced_{width}", width=width)
            row = {"name": f"teacher, {width} dimensions", "kind": step}
            score = outputs.score_reduction
            self.add_scores(step, score, row, step=step, reads=(TEACHER,))

    def add_reduction(
        self, step: str, width: int | None = None, like: Made | None = None
    ) -> Made:
        """Add a dense layer after the teacher."""
        return self.add(
            step,
            "stages",
            starts.reduce_teacher,
            reads=GUIDED,
            seed="reduce_teacher",
            settings=self.recipe.stages["reduce_teacher"],
            pairs=self.recipe.stages["teach_thin_deep"],
            width=width,
            like=like,
        )

    def add_student(
        self, name: str, settings: StudentSettings, left: Mapping[str, Made]
    ) -> None:
        """Add what makes one student.

        Args:
            name: Its folder.
            settings: The student's.
            left: Steps that left the assistant, as `add_assistant` returns them.
        """
        suffix = name.removeprefix("student")
        origin, guide = left.get(settings.layers), left.get(settings.guide)
        stages = student_stages(self.recipe, settings)
        row = {"name": f"{name}, untrained", "kind": "untrained", "student": name}
        begun = settings.start
        if settings.kind == "thin_deep":
            first = stages["teach_thin_deep"].feature == "distillation_first"
            last = self.add_start(
                f"untrained{suffix}",
                starts.thin_deep_student,
                seed="untrained",
                reads=(*TEXTS, "ridge") if begun == "ridge" else TEXTS,
                shape=starts.thin_deep_shape(settings),
                output_dim=self.run.teacher.dim if first else None,
                ridge=begun == "ridge",
            )
        else:
            fields = {"unit_layers", "repeats", "bottleneck_dim", "start"}
            fields |= {"unit_from", "max_length"}
            last = self.add_start(
                f"untrained{suffix}",
                starts.untrained_student,
                seed="untrained",
                assistant=origin,
                **settings.model_dump(include=fields),
            )
        self.add_score(last, row, full=False)
        if begun in starts.FROM_ASSISTANT and settings.bottleneck_dim is not None:
            last = self.add_start(
                f"student_start{suffix}",
                starts.start_student,
                seed="student_start",
                student=last,
                assistant=origin,
                start=begun,
                branch_scale=self.recipe.starts.branch_scale,
            )
            row["name"] = f"{name}, {starts.FROM_ASSISTANT[begun]} start"
            row["stage"] = f"{begun}_start"
            self.add_score(last, row, full=False)
        for place, (stage, of_stage) in enumerate(stages.items(), 1):
            if getattr(of_stage, "branch_alone", False):
                last = self.add_branch_alone(stage, suffix, last, of_stage)
            else:
                last = self.add_stage(stage, of_stage, last, suffix, guide)
            row |= {"name": f"{name}, {stage}", "kind": "stage", "stage": stage}
            later = [STAGES[it].rows for it in list(stages)[place:]]
            self.add_score(last, row, full="pairs" not in later)
        self.add_keep(last, name)
        self.add_trims(last, name)
        self.add_uses(last, name, first=not suffix)

    def add_stage(
        self,
        name: str,
        settings: Any,
        start: Made,
        suffix: str = "",
        assistant: Made | None = None,
    ) -> Made:
        """Add a stage that trains the encoder that the step `start` left."""
        spec, reduction = STAGES[name], None
        depends: dict[str, Any] = {"distribute": self.recipe.distribute}
        if getattr(settings, "feature", "") == "synchronized":
            reduction = self.add_reduction(f"reduced{suffix}", like=start)
        curve = bool(getattr(settings, "scored", None))
        if curve or spec.rows != "pairs":  # `[evaluate]` decides what is scored
            depends["evaluate"] = self.recipe.evaluate
        names = {name for name, _ in self.run.guides_of(settings).values()}
        further = [GUIDE_VECTORS + name for name in sorted(names)]

        def files() -> list[Path]:
            scored = self.run.evaluation_files() if curve else []
            return [*stage_data(self.run, name, settings).files(), *scored]

        return self.add(
            name + suffix,
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
            assistant=assistant if spec.needs_assistant else None,
            reduction=reduction,
        )

    def add_branch_alone(
        self, name: str, suffix: str, student: Made, settings: Any
    ) -> Made:
        """Add what takes a student's word branch out, trains it and puts it back."""
        take, back = starts.take_branch, starts.give_branch
        branch = self.add_start(f"branch{suffix}", take, seed="branch", step=student)
        trained = self.add_stage(name, settings, branch, suffix)
        if self.recipe.evaluate.branches:
            of = f"student{suffix}"
            row = {"name": f"{of}, branch alone", "kind": "branch", "student": of}
            self.add_score(trained, row)
        step, seed = f"branch_back{suffix}", "branch_back"
        return self.add_start(step, back, seed=seed, step=student, branch=trained)

    def add_keep(self, step: Made, name: str) -> None:
        """Add the copy of a finished encoder in the run's folder."""
        self.add(f"keep_{name}", "stages", outputs.keep, shared=False, step=step)

    def add_trims(self, last: Made, name: str) -> None:
        """Add a finished encoder's smaller vocabularies."""
        for trim, settings in self.recipe.trim.items():
            step = self.add(
                f"trim_{name}_{trim}",
                "closed_forms",
                outputs.trim,
                reads=("pairs",),
                step=last,
                settings=settings,
            )
            row = {"name": f"{name}, trimmed, {trim}", "kind": "trimmed"}
            self.add_score(step, row)
            self.add_keep(step, f"{name}_trimmed_{trim}")

    def add_uses(self, last: Made, name: str, first: bool = True) -> None:
        """Add what is done with a finished encoder."""
        if not self.recipe.evaluate.artefacts:
            return
        uses: dict[str, Any] = {f"speed_{name}": outputs.speed}
        if first:
            uses["neighbours"] = outputs.neighbours
        if outputs.can_export():
            uses[f"export_{name}"] = outputs.export
        for step, make in uses.items():
            self.add(step, "evaluation", make, shared=False, step=last)
