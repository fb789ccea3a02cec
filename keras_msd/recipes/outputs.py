"""Steps that follow a training stage: score, keep, measure, export.

After them `write_summary`: the scores and times of the whole run.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from keras_msd.checkpoints.packaged import FILES, is_packaged, packaged_card
from keras_msd.data.corpora import LICENCE as EXAMPLES_LICENCE
from keras_msd.data.corpora import LICENCES
from keras_msd.data.pair import Pair, Pairs, languages_of_pairs
from keras_msd.evaluate.bitext import calibrate_threshold
from keras_msd.evaluate.parts import named
from keras_msd.evaluate.rows import score_row, score_teacher_row
from keras_msd.io.files import atomic_path, write_json
from keras_msd.recipes.cache import ELSEWHERE, Step
from keras_msd.recipes.resources import Run, corpus_of
from keras_msd.recipes.settings import Recipe
from keras_msd.report.reports import write_report
from keras_msd.teachers.teacher import default_folder

Records = Mapping[str, dict[str, Any]]  # what steps left, by name
SENTENCES = 1000  # of the held-out pairs: neighbours among them, the threshold
TIMED = 256  # sentences in a pass that is timed
NEIGHBOURS = 5  # of each query, in the report


def score(
    run: Run, folder: Path, step: str, full: bool, others: bool
) -> dict[str, Any]:
    """Score the encoder that a step left."""
    encoder = run.encoder(step)
    return score_row(run.recipe.settings(), run.data_dir, encoder, full, others)


def score_reduction(run: Run, folder: Path, step: str) -> dict[str, Any]:
    """Score the teacher after the dense layer that a step left."""
    matrix = run.array(step, "reduction")
    reduced = SimpleNamespace(encode=lambda texts: run.teacher.encode(texts) @ matrix)
    row = {"dim": matrix.shape[1]}
    return row | score_row(run.recipe.settings(), run.data_dir, reduced)


def score_teacher(run: Run, folder: Path) -> dict[str, Any]:
    """Score the teacher on English."""
    teacher = run.teacher, run.teacher_encoder
    return score_teacher_row(run.recipe.settings(), run.data_dir, *teacher)


def keep(run: Run, folder: Path, step: str) -> dict[str, Any]:
    """Copy the encoder that a step left to the run's folder, under its name."""
    name = folder.name.removeprefix("keep_")
    with atomic_path(run.folder.path / name) as temporary:
        shutil.copytree(run.folder.step(step) / "encoder", temporary)
    return {ELSEWHERE: [name]}


def speed(run: Run, folder: Path, step: str) -> dict[str, Any]:
    """Time `encode` of the encoder that a step left."""
    from keras_msd.evaluate import speed as measure

    sentences, _ = held_out(run)
    return measure(run.encoder(step), sentences[:TIMED])


def neighbours(run: Run, folder: Path, step: str) -> dict[str, Any]:
    """Write the sentences that a student finds for one of each language."""
    from keras_msd.evaluate import neighbours as find

    sentences, queries = held_out(run)
    nearest = find(run.encoder(step), queries, sentences, NEIGHBOURS)
    write_json(run.folder.path / "neighbours.json", nearest)
    return {ELSEWHERE: ["neighbours.json"]}


def export(run: Run, folder: Path, step: str) -> dict[str, Any]:
    """Write a student as a SavedModel under `artefacts/`, with its threshold."""
    name = folder.name.removeprefix("export_")
    path = run.folder.path / "artefacts" / f"{name}_saved_model"
    languages = languages_of_pairs(run.recipe.data.languages)
    encoder, pairs = run.encoder(step), list(chain.from_iterable(held_out_pairs(run)))
    pairs_of = f"held-out pairs in {', '.join(languages)}"
    threshold = calibrate_threshold(encoder, pairs, name=pairs_of)
    encoder.export(
        path,
        format="saved_model",
        languages=languages,
        teacher_license=teacher_licence(run.recipe.teacher.source),
        data_license=data_licence(run),
        threshold=threshold,
    )
    where = path.relative_to(run.folder.path).as_posix()
    return {"path": where, "threshold": threshold, ELSEWHERE: [where]}


def teacher_licence(source: str) -> str | None:
    """Return a teacher's licence: known of a package, or stated in a README.md."""
    if is_packaged(source, FILES):
        return FILES[source][0].license
    if is_packaged(source):
        return packaged_card(source).get("teacher_license")
    folder = Path(default_folder() if source == "default" else source)
    if not (folder / "README.md").is_file():
        return None
    text = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
    head = re.match(r"---\n(.*?)\n---", text, re.S)
    stated = re.search(r"^license: *(\S+) *$", head[1] if head else "", re.M)
    return stated[1] if stated else None


def data_licence(run: Run) -> str | None:
    """Return the licences of the training corpora, None where none is known."""
    if run.recipe.data.kind == "examples":
        return f"sentences of Tatoeba: {EXAMPLES_LICENCE}"
    names = sorted({corpus_of(path.name) for path in run.training_files()})
    if not LICENCES.keys() & set(names):
        return None
    return "; ".join(f"{name}: {LICENCES.get(name, 'not known')}" for name in names)


def held_out(run: Run) -> tuple[list[str], list[tuple[str, str]]]:
    """Return held-out sources, and one (translation, language) for each pair's.

    The sources are English wherever a pair has English.
    """
    by_languages = held_out_pairs(run)
    sources = dict.fromkeys(pair.source for of in by_languages for pair in of)
    queries = [(pair.target, pair.language) for of in by_languages for pair in of[:1]]
    return list(sources), queries


def held_out_pairs(run: Run) -> list[list[Pair]]:
    """Return the first held-out pairs of each pair of languages."""
    files = run.development_pairs()
    languages = dict.fromkeys(file.languages for file in files)
    each = SENTENCES // len(languages)
    return [
        list(islice(Pairs(file for file in files if file.languages == both), each))
        for both in languages
    ]


def write_summary(
    recipe: Recipe, where: Path, steps: Sequence[Step], records: Records
) -> dict[str, Any]:
    """Write the files of the whole run and return what they say."""
    scores = run_scores(recipe, steps, records)
    timings = run_timings(steps, records)
    write_json(where / "scores.json", scores)
    write_json(where / "timings.json", timings)
    exported = _results(records, "export_")
    return scores | {
        "folder": str(where),
        "timings": timings,
        "artefacts": [str(where / result["path"]) for result in exported.values()],
        "report": str(write_report(where)),
    }


def run_scores(
    recipe: Recipe, steps: Sequence[Step], records: Records
) -> dict[str, Any]:
    """Return the content of scores.json.

    Args:
        recipe: The recipe.
        steps: The run's steps, in order.
        records: What each step left, by its name.

    Returns:
        `recipe`, `scale`, `part` if it is a half, `rows` in order, and `measured`: how
        much of the assistant's cross-lingual score, if that is not 0, each student
        kept, in per cent.
    """
    rows = [dict(step.row) | records[step.name]["result"] for step in steps if step.row]
    assistants = [row for row in rows if row["kind"] == "assistant"]
    whole = assistants[-1].get("cross_lingual") if assistants else None
    last = {row["student"]: row for row in rows if whole and "student" in row}
    kept = {name: 100 * row["cross_lingual"] / whole for name, row in last.items()}
    return {
        "recipe": recipe.recipe.name,
        "scale": recipe.scale,
        **named(recipe.evaluate.part),
        "rows": rows,
        "measured": {f"kept_{name}": round(share, 4) for name, share in kept.items()},
    }


def run_timings(steps: Sequence[Step], records: Records) -> dict[str, Any]:
    """Return the content of timings.json.

    Returns:
        `seconds` in all; `parts` and `steps`, seconds by name; `speed`, sentences a
        second by student; `reused`, for steps taken from another run, the seconds that
        they took there.
    """
    spent = {name: record["seconds"] for name, record in records.items()}
    parts: dict[str, float] = {}
    for step in steps:
        parts[step.part] = round(parts.get(step.part, 0.0) + spent[step.name], 3)
    timed = _results(records, "speed_").items()
    return {
        "seconds": round(sum(spent.values()), 3),
        "parts": parts,
        "steps": spent,
        "speed": {name: result["sentences_per_second"] for name, result in timed},
        "reused": {k: it["reused"] for k, it in records.items() if "reused" in it},
    }


def _results(records: Records, prefix: str) -> dict[str, Any]:
    """Return the results of the steps of one kind, by what follows in their names."""
    return {
        name.removeprefix(prefix): record["result"]
        for name, record in records.items()
        if name.startswith(prefix)
    }
