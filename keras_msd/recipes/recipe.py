"""A recipe: all of its sections, and the rules that concern several of them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from keras_msd.checks import InputError
from keras_msd.evaluate.sets import evaluation_set
from keras_msd.recipes.settings import (
    OF_TARGET,
    About,
    AssistantSettings,
    Counts,
    DataSettings,
    DistributeSettings,
    EvaluateSettings,
    GuideSettings,
    Name,
    Part,
    Positive,
    Scale,
    Settings,
    StagesSettings,
    StartsSettings,
    StudentSettings,
    TeacherSettings,
    TokenizerSettings,
    TrimSettings,
)
from keras_msd.recipes.stages import STAGES, StageSpec, stages_in_use


class Recipe(Settings):
    """One experiment at one scale, as `load_recipe` returns it.

    `precision` is what the stages compute in: "float32", "bfloat16", or "auto", which
    measures which is faster when the run begins; by default float32 on a CPU and
    "auto" on a GPU or TPU. Weights, losses and the optimizer's state are always
    float32. `deterministic` asks for kernels that always add in the same order; by
    default they are used on a CPU. `inverse_frequency` is the smoothing by which the
    rows of a trained word table are weighted, see `starts.weigh_rows`;
    `matryoshka_dims` are the prefixes that a rotation of its embeddings makes good, see
    `starts.order_dimensions`. Below 1, `trained_share` is the share of the trained
    weights in the finished assistant; the rest are those it began with (Wortsman et al.
    2022). `budget` is the expected time of each part in minutes.
    """

    recipe: About
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    deterministic: bool | None = None
    distribute: DistributeSettings = DistributeSettings()
    teacher: TeacherSettings
    guides: dict[Name, GuideSettings] = Field(default_factory=dict)
    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings(source="assistant")
    assistant: AssistantSettings = AssistantSettings(source="none")
    student: StudentSettings
    stages: StagesSettings
    starts: StartsSettings = StartsSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    inverse_frequency: Positive | None = None
    matryoshka_dims: Counts = ()
    trained_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    trim: dict[Name, TrimSettings] = Field(default_factory=dict)
    budget: dict[Part, Positive] = Field(default_factory=dict)
    scale: Scale

    def settings(self) -> dict[str, Any]:
        """Return everything that was set or has a default, as plain data."""
        return self.model_dump(mode="json", exclude_none=True)

    @model_validator(mode="before")
    @classmethod
    def _tokenizer_follows_the_assistant(cls, values: Any) -> Any:
        assistant, tokenizer = (
            values.get(key, {}) for key in ("assistant", "tokenizer")
        )
        tables = isinstance(assistant, Mapping) and isinstance(tokenizer, Mapping)
        if not tables or "source" in tokenizer:
            return values
        source = assistant.get("source", "new" if assistant else "none")
        own = "train" if source in ("new", "none") else "assistant"
        return {**values, "tokenizer": {**tokenizer, "source": own}}

    @model_validator(mode="after")
    def _tokenizer_has_an_owner(self) -> "Recipe":
        source, tokenizer = self.assistant.source, self.tokenizer
        sources = {"new": ("train",), "none": ("train", "teacher")}
        allowed = sources.get(source, ("assistant",))
        if tokenizer.source not in allowed:
            choice = " or ".join(f'"{name}"' for name in allowed)
            raise ValueError(
                f"`tokenizer.source` must be {choice} when `assistant.source` is "
                f'"{source}"'
            )
        trained = tokenizer.source == "train"
        if trained != (tokenizer.vocabulary_size is not None):
            rule = "needs" if trained else "has no"
            raise ValueError(
                f'`tokenizer.source = "{tokenizer.source}"` {rule} '
                "`tokenizer.vocabulary_size`, the size of a vocabulary that is trained"
            )
        return self

    @model_validator(mode="after")
    def _word_tables_have_no_body(self) -> "Recipe":
        assistant, table = self.assistant, ("none", 0, "ridge")
        found = self.student.kind, assistant.num_layers, assistant.start
        for name in ("inverse_frequency", "matryoshka_dims"):
            if getattr(self, name) and found != table:
                raise ValueError(
                    f"`{name}` is for a word table alone: `student.kind`, "
                    f"`assistant.num_layers` and `assistant.start` {table}; received "
                    f"{found}"
                )
        most = assistant.projection_dim or 0
        if max(self.matryoshka_dims, default=0) > most:
            raise ValueError(
                "`matryoshka_dims` must be at most `assistant.projection_dim`, the "
                f"matrix that is rotated; received {self.matryoshka_dims} and {most}"
            )
        return self

    @model_validator(mode="after")
    def _guides_are_targets_of_their_own(self) -> "Recipe":
        own = "teacher", "assistant", "embedding"  # what targets of stages begin with
        for name, guide in self.guides.items():
            if name.startswith(own):
                raise ValueError(
                    f"`guides.{name}` must have a name that is no target of a stage: "
                    f"none that begins with {', '.join(own)}"
                )
            absent = "" if guide.multilingual else name + OF_TARGET
            for stage in STAGES:
                losses = getattr(self.stages[stage], "losses", {})
                if any(absent in loss.targets for loss in losses.values()):
                    raise ValueError(
                        f"`stages.{stage}.losses` names `{absent}`, vectors of "
                        f"translations; set `guides.{name}.multilingual = true`, or "
                        f"take `{name}`"
                    )
        return self

    @model_validator(mode="after")
    def _stages_fit_the_student(self) -> "Recipe":
        student, stages = self.student.kind, self.stages
        alone = student == "none" and bool(stages["reduce_teacher"].widths)
        absent = self.assistant.source == "none"
        if (student == "thin_deep" or alone) != absent:
            raise ValueError(
                'an `[assistant]` is needed, unless `student.kind` is "thin_deep", '
                f'which has none; received kind "{student}", assistant '
                f'"{self.assistant.source}"'
            )
        apart = [name for name, spec in STAGES.items() if not spec.needs_assistant]
        others = [it for it in STAGES if it not in apart and not stages[it].skip]
        if absent and others:
            raise ValueError(
                "without an assistant there are the stages "
                f"{', '.join(f'`{name}`' for name in apart)}; received "
                f"{', '.join(others)}"
            )
        for name, spec in STAGES.items():
            self._check_stage(name, spec)
        return self

    def _check_stage(self, name: str, spec: StageSpec) -> None:
        settings, student = self.stages[name], self.student.kind
        if spec.only_for and (student == spec.only_for) == settings.skip:
            raise ValueError(
                f"`stages.{name}` is the stage of students of kind "
                f'"{spec.only_for}", and of no others; received kind "{student}"'
            )
        trained = getattr(settings, "of", None)  # of stages that may train either
        only = {"thin_deep": "student", "none": "assistant"}.get(student, trained)
        if trained not in (None, only) and not settings.skip:
            raise ValueError(
                f'`stages.{name}.of` must be "{only}" for `student.kind = "{student}"`'
            )
        across = any(evaluation_set(it).similarity for it in self.evaluate.sets)
        if getattr(settings, "scored", None) and not across:
            raise ValueError(
                f"`stages.{name}.scored` is a curve of cross-lingual scores; "
                f"`evaluate.sets` has none: {', '.join(self.evaluate.sets)}"
            )


def check_budgets(recipe: Recipe) -> None:
    """Raise `InputError` for a `token_budget` of a stage that cannot have one."""
    for name, settings in stages_in_use(recipe):
        if not (budget := getattr(settings, "token_budget", None)):
            continue
        if recipe.distribute.strategy != "none":
            raise InputError(
                f"`stages.{name}.token_budget` has batches of any number of pairs, "
                f"which devices cannot share equally. Received: {budget} with "
                f'`distribute.strategy = "{recipe.distribute.strategy}"`. Leave one '
                "of both out."
            )
        if terms := STAGES[name].compared(settings):
            raise InputError(
                f"`stages.{name}.token_budget` is for stages whose terms each see one "
                "pair at a time, as batches then have many short pairs or few long "
                f"ones. Received: {budget}, and what may compare the pairs of a batch: "
                f"{', '.join(terms)}. Leave it out, so that `batch_size` counts, or "
                "leave out that term."
            )


def recipe_model() -> type[Recipe]:
    """Return `Recipe` with the stages that are in `STAGES` now."""
    return _recipe_model(tuple(STAGES.items()))


@lru_cache
def _recipe_model(specs: tuple[tuple[str, StageSpec], ...]) -> type[Recipe]:
    fields: dict[str, Any] = {
        name: (spec.settings, spec.settings.model_validate({"skip": True}))
        for name, spec in specs
    }
    stages: Any = create_model("StagesSettings", __base__=StagesSettings, **fields)
    return create_model("Recipe", __base__=Recipe, stages=(stages, ...))
