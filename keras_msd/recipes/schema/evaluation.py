"""`[evaluate]` of a recipe: what its encoders are scored on."""

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from keras_msd.checks import one_of
from keras_msd.evaluate.halves import WHOLE
from keras_msd.evaluate.sets import (
    ALL,
    SETS,
    check_part,
    check_split,
    evaluation_set,
)
from keras_msd.recipes.schema.settings import Settings, Words

# Keys that `[evaluate]` had, and what says the same.
FORMER = {
    "sts": "`sets`, with the name of the set",
    "split": "`splits`, by the name of the set",
    "retrieval": '`sets`, with "tatoeba", and `languages.tatoeba`',
    "un": '`sets`, with "un", and `languages.un`',
    "bucc": '`sets`, with "bucc2018", and `languages.bucc2018`',
}
Codes = Annotated[Words, BeforeValidator(lambda it: (ALL,) if it == ALL else it)]


class EvaluateSettings(Settings):
    """`[evaluate]`: what is scored, from the files of the data folder.

    `sets` names evaluation sets (`keras_msd.evaluate.SETS`) or row-aligned files
    `sts/<name>.<split>.<xx>.tsv.gz`; the first that compares the sentences of one
    language, too, gives the cross-lingual score. `languages` and `splits` say for some
    of them what is not as usual: the languages by default are those of the pairs, or
    the few that a set has; of Tatoeba also "all" that the folder has. What they say of
    sets that are not scored is left out.
    `part` is what all rows and curves are scored on: "all"; "choose", the half of each
    set that settings are chosen on; or "report", the other half, for the scores that
    are then said. With either half `regress_similarity` chooses its weights on "choose"
    of its dev set.
    `intermediate` is what rows before the last of a model get: all scores, only the
    cross-lingual one, or none: no such rows. Of each track their cross-lingual score,
    and that of curves, reads `intermediate_rows`: fewer are quicker. No final score
    does. With `branches` a word branch that is trained alone has a row of its own,
    beside that of its student. Without `artefacts` no encoder is timed or exported.
    """

    sets: Words = ("stsb",)
    languages: dict[str, Codes] = Field(default_factory=dict)
    splits: dict[str, str] = Field(default_factory=dict, validate_default=True)
    # Not said where it is as before: results know their settings by a hash.
    part: Literal["all", "choose", "report"] = Field(
        default=WHOLE, exclude_if=lambda part: part == WHOLE
    )
    intermediate: Literal["full", "cross_lingual", "none"] = "full"
    intermediate_rows: Annotated[int, Field(ge=2)] | None = None
    branches: bool | None = None
    neighbours: Annotated[int, Field(ge=0)] = 5
    artefacts: bool = True

    @model_validator(mode="before")
    @classmethod
    def _is_written_as_today(cls, values: Any) -> Any:
        for key, rule in FORMER.items():
            if key in values:
                raise ValueError(f"`{key}` is now said by {rule}")
        return values

    @field_validator("languages", "splits")
    @classmethod
    def _says_nothing_of_other_sets(
        cls, table: dict[str, Any], info: ValidationInfo
    ) -> dict[str, Any]:
        if "sets" not in info.data:  # they are wrong themselves, which is said
            return table
        key, sets = str(info.field_name), info.data["sets"]
        for name in table:
            one_of(dict.fromkeys([*SETS, *sets]), **{key: name})
        usual = {name: evaluation_set(name).splits[0] for name in sets}
        said = {name: value for name, value in table.items() if name in sets}
        return usual | said if key == "splits" else said

    @model_validator(mode="after")
    def _sets_are_known(self) -> "EvaluateSettings":
        records = [evaluation_set(name) for name in self.sets]
        across = any(record.similarity for record in records)
        if not across and (self.intermediate != "full" or not records):
            known = ", ".join(name for name in SETS if SETS[name].similarity)
            raise ValueError(
                f"`sets` must have one with a cross-lingual score, such as {known}, "
                'or `intermediate = "full"`; '
                f"received {', '.join(self.sets) or 'none'}"
            )
        for record in records:
            if self.languages.get(record.name) == (ALL,) and record.others is None:
                raise ValueError(
                    f'`languages.{record.name}` must name them: "{ALL}" is for sets '
                    "with other languages in their folder, such as tatoeba"
                )
            check_split(record, self.splits[record.name])
            check_part(record, self.part)
        return self
