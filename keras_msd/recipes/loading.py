"""Recipes: all of their settings, and how they are read.

Files, scale and `--set` are laid over each other, then checked.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, reduce
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field, model_validator

from keras_msd import limits
from keras_msd.checks import InputError, nearest, one_of
from keras_msd.files import read_toml
from keras_msd.recipes.files import (
    Layer,
    Place,
    find_recipe,
    merge,
    read_layers,
    recipe_names,
    shared_file,
    unknown_key,
    validated,
)
from keras_msd.recipes.settings import (
    About,
    PublishedRow,
    Recipe,
    Scale,
    StudentSettings,
)
from keras_msd.stages.settings import Settings, Words
from keras_msd.stages.table import STAGES

SCALES = get_args(Scale)


def load_recipe(
    name_or_path: str | Path,
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Recipe:
    """Return a checked recipe at one scale.

    Args:
        name_or_path: A recipe's name, or the path of a TOML file.
        scale: "smoke", "demo", "lab", "backbone" or "paper"; `None` takes the recipe's
            default.
        overrides: Values by dotted key, such as
            `{"stages.teach_student.batch_size": 16}`; None removes what the recipe has.

    Raises:
        InputError: A file is missing or is not TOML; a key is unknown, missing or has a
            value that is not allowed; the recipe has no such scale.

    Example:
        >>> changes = {"stages.teach_student.batch_size": 32}
        >>> recipe = msd.recipes.load_recipe("msd_minilm_b128_ru3", "paper", changes)
        >>> recipe.student.bottleneck_dim, recipe.stages["teach_student"].batch_size
        (128, 32)
        >>> recipe.stages["teach_student"].epochs
        20
    """
    place = find_recipe(name_or_path)
    _, merged, layers = _laid_over(place, scale, overrides)
    recipe = checked(merged, layers)
    _check_students(recipe, layers)
    about = with_published(recipe.recipe, place.path)
    return recipe.model_copy(update={"recipe": about})


def checked(values: Mapping[str, Any], layers: Sequence[Layer] = ()) -> Recipe:
    """Return the values of a recipe as a `Recipe`; `layers` are where they are from.

    Raises:
        InputError: A key is unknown or missing, or has a value that is not allowed.
    """
    given = values.get("stages", {})
    if isinstance(given, Mapping):
        for name in given:
            if name not in STAGES:
                raise unknown_key("stages", name, given[name], STAGES, layers)
        stages = {}
        for name, spec in STAGES.items():
            table, key = given.get(name, {"skip": True}), f"stages.{name}"
            stages[name] = validated(spec.settings, table, layers, key)
        values = {**values, "stages": stages}
    return validated(Recipe, values, layers)


def _laid_over(
    place: Place, scale: str | None = None, overrides: Mapping[str, Any] | None = None
) -> tuple[About, dict[str, Any], list[Layer]]:
    """Return the header of a recipe, its values at a scale, and their origins."""
    files = read_layers(place)
    about = _about(files)
    chosen = scale or about.default_scale
    one_of(about.scales, scale=chosen)
    layers = [
        *(
            Layer(label, {k: v for k, v in values.items() if k not in SCALES})
            for label, values in files
        ),
        *(Layer(f"{it.label}, [{chosen}]", it.values.get(chosen, {})) for it in files),
        Layer("--set", nested(overrides or {})),
    ]
    merged: dict[str, Any] = {"scale": chosen}
    for layer in layers:
        merged = merge(_without_other_assistant(merged, layer.values), layer.values)
    return about, merged, layers


def _without_other_assistant(
    below: dict[str, Any], above: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `below` without what describes an assistant that `above` replaces.

    The shape of a new assistant does not apply to one that exists, nor the reverse: a
    `source` of the other kind resets `[assistant]`, and `[tokenizer]` with it.
    """
    old, new = below.get("assistant", {}), above.get("assistant", {})
    if not isinstance(new, Mapping) or not isinstance(new.get("source"), str):
        return below
    if _exists(old) == _exists(new):
        return below
    replaced = "assistant", "tokenizer"
    return {key: value for key, value in below.items() if key not in replaced}


def _exists(assistant: Mapping[str, Any]) -> bool:
    return assistant.get("source", "new") not in ("new", "none")


def _check_students(recipe: Recipe, layers: list[Layer]) -> None:
    """Check what variants and students' stages change, where it can be named."""
    names = [
        name for name, spec in STAGES.items() if spec.trains in ("student", "last")
    ]
    shared = recipe.student.model_copy(update={"variants": {}}).model_dump()
    students = {"student": recipe.student}
    for name, changes in recipe.student.variants.items():
        key = f"student.variants.{name}"
        students[key] = validated(StudentSettings, shared | changes, layers, key)
    for place, student in students.items():
        for name, changes in student.stages.items():
            key = f"{place}.stages"
            if name not in names:
                raise unknown_key(key, name, changes, names, layers)
            settings = recipe.stages[name]
            values = settings.model_dump() | changes
            validated(type(settings), values, layers, f"{key}.{name}")


def describe(name_or_path: str | Path) -> About:
    """Return the `[recipe]` section of a recipe file, checked."""
    place = find_recipe(name_or_path)
    return with_published(_about(read_layers(place)), place.path)


def list_recipes() -> list[dict[str, Any]]:
    """Return what every recipe is, by name.

    Returns:
        For each what `about_recipe` returns.

    Raises:
        InputError: A recipe file is broken.

    Example:
        >>> recipes = {about["name"]: about for about in msd.recipes.list_recipes()}
        >>> recipes["lealla_small"]["table"], recipes["lealla_small"]["row"]
        ('2; 3; 8', 'LEALLA-small')
        >>> recipes["lealla_small"]["expected"]["tatoeba"]
        80.7
    """
    return [about_recipe(name) for name in recipe_names()]


def about_recipe(name_or_path: str | Path) -> dict[str, Any]:
    """Return what one recipe is.

    Returns:
        The keys of `[recipe]`, and `command`, which runs it at its default scale.
        `expected` holds published scores x100, `rows` the same by model where a recipe
        has several rows of a table.

    Raises:
        InputError: There is no such recipe, or its file is broken.

    Example:
        >>> from keras_msd.recipes.loading import about_recipe
        >>> about_recipe("xkd_lab")["command"]
        'keras-msd run xkd_lab --data DATA'
    """
    place = find_recipe(name_or_path)
    about, values, _ = _laid_over(place)
    data = " --data DATA" if values["data"].get("kind") == "folder" else ""
    filled = with_published(about, place.path).model_dump(mode="json")
    return filled | {"command": f"keras-msd run {name_or_path}{data}"}


def parse_override(text: str) -> tuple[str, Any]:
    """Split "key=value" of `--set`; the value is TOML, or else a bare word.

    An empty table removes what recipes have there.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"`--set` takes KEY=VALUE. Received: {text!r}. "
            "Write for example: --set stages.teach_student.batch_size=16"
        )
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), None if found == {} else found


def _about(layers: list[Layer]) -> About:
    headers: list[Mapping[str, Any]] = [it.values.get("recipe", {}) for it in layers]
    merged = reduce(lambda one, two: merge({"": one}, {"": two})[""], headers)
    return validated(About, merged, layers, "recipe")


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the tables that hold them."""
    result: dict[str, Any] = {}
    for dotted, value in overrides.items():
        *tables, key = dotted.split(".")
        limits.NESTING.check(len(tables) + 1, "`--set`", "Give a key of the recipe.")
        table = result
        for part in tables:
            inner = table.get(part)
            table[part] = dict(inner) if isinstance(inner, Mapping) else {}
            table = table[part]
        table[key] = value
    return result


class PublishedTables(Settings):
    """`[[tables]]` of a file of published scores: rows of one or more tables."""

    table: str
    columns: Words | None = None
    rows: dict[str, Annotated[tuple[float, ...], Field(strict=False)]]


class Paper(Settings):
    """A file of published scores.

    `paper` is the title. `printed_on` and `ours` are as in `[recipe]`, for all recipes
    of the paper. `columns` are those of `tables` that name none.
    """

    paper: str
    columns: Words = ()
    printed_on: dict[str, int] = Field(default_factory=dict)
    ours: dict[str, str] = Field(default_factory=dict)
    tables: Annotated[tuple[PublishedTables, ...], Field(strict=False)]

    @cached_property
    def scores(self) -> dict[str, dict[str, dict[str, float]]]:
        """The scores by table, row and column."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for block in self.tables:
            columns = self.columns if block.columns is None else block.columns
            for row, scores in block.rows.items():
                if len(scores) != len(columns):
                    raise ValueError(
                        f"row `{row}` of table `{block.table}` must have a number for "
                        f"each of its {len(columns)} columns; received {len(scores)}"
                    )
                for name in tables_named(block.table):
                    named = dict(zip(columns, scores, strict=True))
                    found.setdefault(name, {})[row] = named
        return found

    @model_validator(mode="after")
    def _rows_are_full(self) -> "Paper":
        _ = self.scores
        return self


@cache
def read_paper(path: Path) -> Paper:
    """Read a file of published scores.

    Raises:
        InputError: It is no TOML, or has another form.
    """
    values = read_toml(path)
    return validated(Paper, values, [Layer(str(path), values)])


def tables_named(text: str) -> list[str]:
    """Return the tables and figures that a recipe's `table` names: "1; figure 3"."""
    names = [name.strip() for name in text.split(";")]
    return [name for name in names if name not in ("", "none")]


def with_published(about: About, recipe: Path) -> About:
    """Return `[recipe]` with the title of its paper and what that prints for its rows.

    What the recipe gives itself has precedence: a `paper`, `expected`, reasons in
    `ours`.

    Args:
        about: The section.
        recipe: The recipe's file.

    Raises:
        InputError: The file of published scores is missing or broken, or lacks a table,
            row or column that the recipe names.
    """
    if about.paper or not about.citation:
        return about.model_copy(update={"citation": ""})
    path = shared_file(recipe, f"published/{about.citation}", "citation")
    paper, where = read_paper(path), f"`{path}`, named by `{recipe}`,"

    def filled(row: PublishedRow) -> PublishedRow:
        expected = row.expected or _scores(paper, row, where)
        return row.model_copy(update={"expected": expected})

    own = PublishedRow(table=about.table, row=about.row, expected=about.expected)
    changes = {
        "paper": paper.paper,
        "printed_on": paper.printed_on,
        "ours": paper.ours | about.ours,
        "rows": {model: filled(row) for model, row in about.rows.items()},
        "expected": about.expected if about.rows else filled(own).expected,
    }
    return about.model_copy(update=changes)


def _scores(paper: Paper, row: PublishedRow, where: str) -> dict[str, float]:
    name = row.printed_as or row.row
    scores: dict[str, float] = {}
    for table in tables_named(row.table) if name != "none" else ():
        printed = paper.scores.get(table, {})
        if name not in printed:
            raise InputError(
                f"{where} has no row `{name}` of table `{table}`. "
                f"{nearest(name, printed)} Add it there, name the paper's row in "
                '`printed_as`, or write `printed_as = "none"` for a row of your own.'
            )
        scores |= printed[name]
    if unknown := [column for column in row.columns if column not in scores]:
        raise InputError(
            f"{where} prints no {', '.join(f'`{key}`' for key in unknown)} for row "
            f"`{name}` of table `{row.table}`. Columns there: {', '.join(scores)}."
        )
    return {key: scores[key] for key in row.columns or scores}
