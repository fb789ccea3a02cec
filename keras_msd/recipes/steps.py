"""The list of a run's steps, in order, with their settings and what they read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_msd.recipes import data, outputs, starts
from keras_msd.recipes.cache import Step
from keras_msd.recipes.resources import TRIMMED, Run
from keras_msd.recipes.settings import StudentSettings
from keras_msd.recipes.stage_data import stage_data
from keras_msd.recipes.stages import STAGES, assistant_stages, student_stages
from keras_msd.recipes.summary import EXPORT, SPEED
from keras_msd.recipes.train import fit

SCORE = "score_"  # begins the names of steps
TEACHER, TEXTS = "teacher_vectors", ("pairs", "tokenizer")
GUIDED = (*TEXTS, TEACHER)


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

    def add(self, name: str, part: str, make: Any, **more: Any) -> str:
        """Add a step and return its name."""
        self.found.append(Step(name, part, make, **more))
        return name

    def add_start(self, name: str, make: Any, seed: str = "", **more: Any) -> str:
        """Add a step that makes an encoder without training it."""
        given = {"reads": TEXTS, "seed": seed or name, **more}
        return self.add(name, "closed_forms", make, **given)

    def add_scores(
        self, name: str, make: Any, row: Mapping[str, str], **more: Any
    ) -> None:
        """Add a step that scores something on the run's evaluation sets."""
        depends = {"data": self.recipe.data, "evaluate": self.recipe.evaluate}
        given = {"depends": depends, "files": self.run.evaluation_files, **more}
        self.add(SCORE + name, "evaluation", make, row=dict(row), **given)

    def add_score(self, step: str, row: Mapping[str, str], full: bool = True) -> None:
        """Add a score row of the encoder that a step left, if the recipe wants it.

        Args:
            step: The step.
            row: As for `Step`.
            full: Whether it gets all scores, whatever `evaluate.intermediate` says.
        """
        rule = self.recipe.evaluate.intermediate
        if full or rule != "none":
            settings = {"full": full or rule == "full", "others": full}
            given = {"settings": settings, "inputs": {"step": step}}
            self.add_scores(step, outputs.score, row, **given)

    def add_data(self) -> None:
        """Add pairs, teacher's embeddings, tokenizer."""
        run, recipe = self.run, self.recipe
        of_data = {"data": recipe.data}
        if recipe.data.kind == "examples":
            make: Any = data.write_example_data
            self.add("example_data", "tokens", make, depends=of_data)
        files = run.training_files
        self.add("pairs", "tokens", data.take_pairs, depends=of_data, files=files)
        depends = {"teacher": recipe.teacher, "encoder": run.teacher.fingerprint}
        make = data.take_teacher_vectors
        given: dict[str, Any] = {"reads": ("pairs",), "depends": depends}
        self.add(TEACHER, "teacher", make, shared=False, **given)
        row = {"name": "teacher", "kind": "teacher"}
        self.add_scores("teacher", outputs.score_teacher, row, reads=(TEACHER,))
        if recipe.assistant.trim:
            given["depends"] = self._assistant()
            self.add(TRIMMED, "tokens", data.trim_assistant, **given)
        depends = {"tokenizer": recipe.tokenizer}
        if not recipe.assistant.trim:
            depends["encoder"] = self._assistant()["encoder"]
        reads: tuple[str, ...] = ("pairs", TRIMMED)
        if recipe.tokenizer.source == "teacher":
            reads = (*reads, TEACHER)
        make = data.take_tokenizer
        self.add("tokenizer", "tokens", make, depends=depends, reads=reads)

    def _assistant(self) -> dict[str, Any]:
        """Return what a step depends on that reads the assistant that exists."""
        named = self.run.named_assistant
        found = named.fingerprint if named else None
        return {"assistant": self.recipe.assistant, "encoder": found}

    def add_closed_forms(self) -> None:
        """Add the ridge regression and the closed forms that are scored."""
        # `check` refuses starts with more pieces.
        run, recipe = self.run, self.recipe
        if not starts.fits_table(recipe) or run.pieces > starts.MOST_PIECES:
            return
        grows = recipe.assistant.start == "grow"
        settings: dict[str, Any] = {"ridge": recipe.starts.ridge, "grows": grows}
        given: dict[str, Any] = {"settings": settings, "reads": GUIDED}
        self.add("ridge", "closed_forms", starts.fit_table, **given)
        for width in (None, *table_widths(run)) if recipe.starts.closed_form else ():
            name = "closed_form" if width is None else f"closed_form_b{width}"
            reads, settings = ("tokenizer", "ridge"), {"width": width}
            self.add_start(name, starts.closed_form, settings=settings, reads=reads)
            row = "closed form" if width is None else f"closed form, B {width}"
            self.add_score(name, {"name": row, "kind": "closed_form"})

    def add_assistant(self) -> dict[str, str]:
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
        given: dict[str, Any]
        if smoothing := recipe.inverse_frequency:
            row = {"name": "assistant before weights by frequency", **kind}
            self.add_score(last, row)
            given = {"settings": {"smoothing": smoothing}, "inputs": {"step": last}}
            last = self.add_start("weigh_rows", starts.weigh_rows, **given)
        if dims := recipe.matryoshka_dims:
            given = {"settings": {"dims": dims}, "inputs": {"step": last}}
            last = self.add_start("order_dimensions", starts.order_dimensions, **given)
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
            given = {"inputs": {"step": step}, "reads": (TEACHER,)}
            self.add_scores(step, outputs.score_reduction, row, **given)

    def add_reduction(
        self, step: str, width: int | None = None, like: str | None = None
    ) -> str:
        """Add a dense layer after the teacher."""
        stages = self.recipe.stages
        settings = {"settings": stages["reduce_teacher"], "width": width}
        settings["pairs"] = stages["teach_thin_deep"]
        given = {"settings": settings, "inputs": {"like": like}, "reads": GUIDED}
        make = starts.reduce_teacher
        return self.add(step, "stages", make, seed="reduce_teacher", **given)

    def add_student(
        self, name: str, settings: StudentSettings, left: Mapping[str, str]
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
        last, table = f"untrained{suffix}", settings.start in starts.FROM_ASSISTANT
        if settings.kind == "thin_deep":
            first = stages["teach_thin_deep"].feature == "distillation_first"
            ridge = settings.start == "ridge"
            given: dict[str, Any] = {"shape": starts.thin_deep_shape(settings)}
            given["output_dim"] = self.run.teacher.dim if first else None
            given = {"settings": given | {"ridge": ridge}}
            given["reads"] = (*TEXTS, "ridge") if ridge else TEXTS
            self.add_start(last, starts.thin_deep_student, "untrained", **given)
        else:
            fields = {"unit_layers", "repeats", "bottleneck_dim", "start"}
            given = {"settings": settings.model_dump(include=fields)}
            given["inputs"] = {"assistant": origin}
            self.add_start(last, starts.untrained_student, "untrained", **given)
        self.add_score(last, row, full=False)
        if table and settings.bottleneck_dim is not None:
            scale = self.recipe.starts.branch_scale
            given = {"settings": {"start": settings.start, "branch_scale": scale}}
            given["inputs"] = {"student": last, "assistant": origin}
            last, begun = f"student_start{suffix}", settings.start
            self.add_start(last, starts.start_student, "student_start", **given)
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
        compared = None if settings.kind == "thin_deep" else guide
        self.add_uses(last, name, first=not suffix, assistant=compared)

    def add_stage(
        self,
        name: str,
        settings: Any,
        start: str,
        suffix: str = "",
        assistant: str | None = None,
    ) -> str:
        """Add a stage that trains the encoder that the step `start` left."""
        spec, reduction = STAGES[name], None
        depends: dict[str, Any] = {"distribute": self.recipe.distribute}
        if getattr(settings, "feature", "") == "synchronized":
            reduction = self.add_reduction(f"reduced{suffix}", like=start)
        curve = bool(getattr(settings, "scored", None))
        if curve or spec.rows != "pairs":  # `[evaluate]` decides what is scored
            depends["evaluate"] = self.recipe.evaluate

        def files() -> list[Path]:
            scored = self.run.evaluation_files() if curve else []
            return [*stage_data(self.run, name, settings).files(), *scored]

        guide = assistant if spec.needs_assistant else None
        inputs = {"start": start, "assistant": guide, "reduction": reduction}
        given = {"name": name, "settings": settings, "precision": self.run.precision}
        more: dict[str, Any] = {"settings": given, "inputs": inputs, "reads": GUIDED}
        more |= {"depends": depends, "files": files, "seed": name}
        return self.add(name + suffix, "stages", fit, **more)

    def add_branch_alone(
        self, name: str, suffix: str, student: str, settings: Any
    ) -> str:
        """Add what takes a student's word branch out, trains it and puts it back."""
        inputs = {"step": student}
        branch = f"branch{suffix}"
        self.add_start(branch, starts.take_branch, "branch", inputs=inputs)
        trained = self.add_stage(name, settings, branch, suffix)
        if self.recipe.evaluate.branches:
            of = f"student{suffix}"
            row = {"name": f"{of}, branch alone", "kind": "branch", "student": of}
            self.add_score(trained, row)
        inputs = {"step": student, "branch": trained}
        back = f"branch_back{suffix}"
        return self.add_start(back, starts.give_branch, "branch_back", inputs=inputs)

    def add_keep(self, step: str, name: str) -> None:
        """Add the copy of a finished encoder in the run's folder."""
        given = {"settings": {"name": name}, "inputs": {"step": step}}
        self.add(f"keep_{name}", "stages", outputs.keep, shared=False, **given)

    def add_trims(self, last: str, name: str) -> None:
        """Add a finished encoder's smaller vocabularies."""
        for trim, settings in self.recipe.trim.items():
            given = {"settings": {"settings": settings}, "inputs": {"step": last}}
            step, reads = f"trim_{name}_{trim}", ("pairs",)
            self.add(step, "closed_forms", outputs.trim, reads=reads, **given)
            row = {"name": f"{name}, trimmed, {trim}", "kind": "trimmed"}
            self.add_score(step, row)
            self.add_keep(step, f"{name}_trimmed_{trim}")

    def add_uses(
        self, last: str, name: str, first: bool = True, assistant: str | None = None
    ) -> None:
        """Add what is done with a finished encoder.

        The first student's translations are compared with those of its assistant.
        """
        if not self.recipe.evaluate.artefacts:
            return
        of_last: dict[str, Any] = {"inputs": {"step": last}, "shared": False}
        self.add(SPEED + name, "evaluation", outputs.speed, **of_last)
        if first:
            top = {"settings": {"top": self.recipe.evaluate.neighbours}}
            self.add("neighbours", "evaluation", outputs.neighbours, **of_last, **top)
            if assistant:
                both = {"inputs": {"step": last, "assistant": assistant}}
                given = {**of_last, **both, **top}
                self.add("worse", "evaluation", outputs.worse, **given)
        if outputs.can_export():
            given = {**of_last, "settings": {"name": name}}
            self.add(EXPORT + name, "evaluation", outputs.export, **given)
