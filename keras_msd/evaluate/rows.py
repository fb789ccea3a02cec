"""Rows of scores.json: size and scores of each encoder of a run.

Here, a recipe is a plain dict, as returned by `Recipe.settings()` or read from
recipe.toml.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_folder
from keras_msd.data.pair import ENGLISH, languages_of_pairs
from keras_msd.evaluate.measures import cost, parameters_by_layer
from keras_msd.evaluate.parts import WHOLE, SetFile, named, read_parts
from keras_msd.evaluate.sets import (
    ALL,
    SETS,
    EvaluationSet,
    evaluation_set,
    unknown_set,
)

Settings = Mapping[str, Any]


class Asked(NamedTuple):
    """An evaluation set as a recipe requests it: languages, split and half.

    If `languages` is None, all languages of the files are scored.
    """

    record: EvaluationSet
    languages: list[str] | None
    split: str
    part: str = WHOLE

    @property
    def title(self) -> str:
        """Name of the set in a report."""
        record = self.record
        name = record.label or record.name
        said = f"{name} {self.split}" if record.similarity else name
        return said if self.part == WHOLE else f"{said}, half `{self.part}`"

    def score(self, encoder: Any, data_dir: Path, **options: Any) -> dict[str, Any]:
        """Score an encoder on the set in a data folder."""
        parts = read_parts(self.find(data_dir, self.languages))
        return self.record.score(encoder, parts, **options, **named(self.part))

    def find(
        self, data_dir: Path, languages: list[str] | None
    ) -> Mapping[str, SetFile]:
        """Return the parts of the set in some languages."""
        return self.record.find(data_dir / self.record.folder, languages, self.split)

    def others(self, data_dir: Path) -> "Asked | None":
        """Return the set in the folder's other languages; None if there are none."""
        if not self.record.others or self.languages is None:
            return None
        asked = self.find(data_dir, self.languages)
        codes = [code for code in self.find(data_dir, None) if code not in asked]
        return self._replace(languages=codes) if codes else None

    def files(self, data_dir: Path) -> list[Path]:
        """Return the files that scoring reads, including other languages."""
        found = dict(self.find(data_dir, self.languages))
        if self.record.others:
            found |= self.find(data_dir, None)
        return [path for part in found.values() for path in part.paths]


def asked_sets(recipe: Settings) -> list[Asked]:
    """Return the sets of `[evaluate]`, in its order.

    Args:
        recipe: A recipe.
    """
    asked, pairs = recipe.get("evaluate", {}), recipe.get("data", {})
    languages, splits = asked.get("languages", {}), asked.get("splits", {})
    part = asked.get("part", WHOLE)
    result = []
    for name in dict.fromkeys(asked.get("sets", ())):
        record = evaluation_set(name)
        of_pairs = languages_of_pairs(pairs.get("languages", ()))
        usual = record.languages or [code for code in of_pairs if code != ENGLISH]
        codes = list(languages.get(name) or usual)
        split = splits.get(name) or record.splits[0]
        if codes == [ALL]:
            codes = list(record.languages)
        result.append(Asked(record, codes or None, split, part))
    return result


def evaluation_files(recipe: Settings, data_dir: Path) -> list[Path]:
    """Return the files that scoring reads."""
    return [path for asked in asked_sets(recipe) for path in asked.files(data_dir)]


def check_evaluation_files(recipe: Settings, data_dir: Path) -> None:
    """Raise an `InputError` that names every missing evaluation file."""
    existing_folder(data_dir, "data folder")
    absent: list[Path] = []
    reasons = []
    for asked in asked_sets(recipe):
        try:
            absent += [path for path in asked.files(data_dir) if not path.is_file()]
        except InputError as error:
            reasons.append(str(error))
    if absent:
        reasons.insert(0, f"{', '.join(f'`{path}`' for path in absent)} do not exist.")
    if reasons:
        raise InputError(
            f"The recipe `{recipe['recipe']['name']}` at scale {recipe['scale']} needs "
            f"files: {' '.join(reasons)} Add them, or change `[evaluate]`."
        )


def check_registered(recipe: Settings) -> None:
    """Raise `InputError` for an unregistered set: the example data do not have it."""
    for name in recipe["evaluate"]["sets"]:
        if name not in SETS:
            raise InputError(
                f"`evaluate.sets`: {unknown_set(name)} Received: example sentences."
            )


def score_row(
    recipe: Settings,
    data_dir: Path,
    encoder: Any,
    full: bool = True,
    others: bool = True,
) -> dict[str, Any]:
    """Return sizes and scores of one encoder.

    Args:
        recipe: The recipe, which lists the sets.
        data_dir: The data folder.
        encoder: Anything with `encode`. If it has `model`, its size is also counted.
        full: Whether to compute all scores. Otherwise only the cross-lingual one, which
            needs a quarter of the sentences.
        others: Whether `full` also scores sets such as Tatoeba in the other languages
            of the data folder.

    Returns:
        `parameters`, `bytes`, `table_bytes` and `parameters_by_layer` if known; the
        scores of each set, x100, such as `cross_lingual`, `monolingual`, `retrieval`,
        `retrieval_others`, `un` and `bucc`; `tracks`, and `retrieval_tracks` and
        `retrieval_others_tracks` by language. If two sets have scores of the same name,
        those of the second set get its name as a prefix.
    """
    row = _sizes(encoder) if hasattr(encoder, "model") else {}
    return row | _scores(asked_sets(recipe), data_dir, encoder, full, others)


def score_teacher_row(
    recipe: Settings, data_dir: Path, teacher: Any, encoder: Any | None
) -> dict[str, Any]:
    """Return a teacher's scores in the languages it reads, and its size.

    Args:
        recipe: The recipe, which lists the sets and whether the teacher is
            multilingual.
        data_dir: The data folder.
        teacher: Anything with `encode`.
        encoder: The teacher as an `Encoder`, or None.
    """
    sizes = _sizes(encoder) if encoder is not None else {}
    sets = asked_sets(recipe)
    if not recipe["teacher"]["multilingual"]:
        sets = [asked._replace(languages=[]) for asked in sets]
        sets = [asked for asked in sets if asked.record.similarity]
    return sizes | _scores(sets, data_dir, teacher)


def _sizes(encoder: Any) -> dict[str, Any]:
    return {**cost(encoder), "parameters_by_layer": parameters_by_layer(encoder)}


def _scores(
    sets: Iterable[Asked],
    data_dir: Path,
    encoder: Any,
    full: bool = True,
    others: bool = True,
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for asked in sets:
        if full:
            _add(row, asked, asked.score(encoder, data_dir))
            if others and (rest := asked.others(data_dir)):
                _add(row, rest, rest.score(encoder, data_dir), "_others")
        elif asked.record.similarity:
            scores = dict(asked.score(encoder, data_dir, within=False))
            scores.pop("monolingual", None)
            _add(row, asked, scores)
    return row


def _add(
    row: dict[str, Any], asked: Asked, scores: Mapping[str, Any], suffix: str = ""
) -> None:
    """Add the scores of one set to a row, under the names in its record."""
    record = asked.record
    names = record.scores or {scores["primary"]: record.name}
    known = any(name + suffix in row for name in names.values())
    prefix = f"{record.name}_" if known else ""
    for key, name in names.items():
        if key in scores:
            row[f"{prefix}{name}{suffix}"] = scores[key]
    tracks, first = scores.get("tracks", {}), next(iter(names.values()))
    if record.others:
        row[f"{prefix}{first}{suffix}_tracks"] = tracks
    elif tracks:
        start = record.name if known else "" if record.similarity else first
        named = {_track_name(record, start, name): v for name, v in tracks.items()}
        row["tracks"] = row.get("tracks", {}) | named


def _track_name(record: EvaluationSet, start: str, track: str) -> str:
    """Return the name of a track in a row: `de` for `de-de`, `un-es` for `en-es`."""
    left, _, right = track.partition("-")
    if left == right:
        track = left
    elif right and ENGLISH in (left, right) and not record.similarity:
        track = right if left == ENGLISH else left
    return f"{start}-{track}" if start else track
