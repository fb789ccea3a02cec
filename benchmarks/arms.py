"""Recipes whose models are compared, over seeds, each seed kept in one file.

A run that was stopped goes on where it was, and a seed that stands in the file is not
run again; other recipes and seeds may run beside it into the same file. Scores are of
the halves that are reported. What rows, recipes and seeds have in common is done once.
"""

import argparse
import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checkpoints.loading import load_encoder
from keras_msd.files import digest, read_json, write_json
from keras_msd.recipes import load_recipe, run
from keras_msd.report.files import read_run
from keras_msd.report.paper_tables import other_set, run_rows
from keras_msd.report.score_rows import our_name

RESULTS = Path(__file__).parent / "results"
SCORES = ("retrieval", "cross_lingual", "monolingual")  # those that a recipe has
CHANGES: dict[str, Any] = {
    "evaluate.part": "report",
    "evaluate.intermediate": "none",
    "evaluate.artefacts": False,
}
Changes = Mapping[str, Any]
LAST_TENTH = "last_tenth"  # a stage's `scored`, and what its history calls the scores


def parser(about: str | None, name: str) -> argparse.ArgumentParser:
    """Return the options that such a benchmark has; `name` is that of its files."""
    found = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    found.add_argument("--data", type=Path)
    found.add_argument("--out", type=Path, default=Path("runs") / name)
    found.add_argument("--store", type=Path, help="guide vectors and shared steps")
    found.add_argument("--scale", default="lab")
    found.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    found.add_argument(
        "--assistant", type=Path, help="folder of the assistant before stage 1"
    )
    found.add_argument(
        "--teacher", type=Path, help="folder of a multilingual encoder, for LEALLA"
    )
    found.add_argument("--result", type=Path, default=RESULTS / f"{name}.json")
    return found


def changes(
    recipe: str, given: argparse.Namespace, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Return what a benchmark sets in a recipe: its sets but `without`, an encoder.

    That is the assistant, or the multilingual teacher of recipes without an assistant.
    Stages without a curve are scored after nine tenths of their updates, too.
    """
    loaded = load_recipe(recipe, given.scale)
    sets = [name for name in loaded.evaluate.sets if name not in without]
    found = CHANGES | {"evaluate.sets": sets}
    for name, stage in loaded.stages:
        if not stage.skip and getattr(stage, "scored", LAST_TENTH) is None:
            found[f"stages.{name}.scored"] = LAST_TENTH
    if loaded.assistant.source == "none":
        if given.teacher:
            found |= {
                "teacher.source": str(given.teacher),
                "teacher.multilingual": True,
            }
    elif given.assistant:
        found["assistant.source"] = str(given.assistant)
        found["tokenizer.source"] = "assistant"
    return found


def said(changes: Changes) -> dict[str, Any]:
    """Return changes with what an encoder is in place of where it lies."""
    named = dict(changes)
    for key in ("assistant.source", "teacher.source"):
        if folder := named.get(key):
            named[key] = load_encoder(folder).fingerprint
    return named


def settings_digest(recipe: str, scale: str, said: Changes) -> str:
    """Return a hash of what a recipe says, with what is `said` of its changes.

    A title or cost put right leaves a result what it is, and so does a setting that was
    added and that the recipe has not.
    """
    settings = load_recipe(recipe, scale, said)
    return digest(settings.model_dump_json(exclude={"recipe"}, exclude_none=True))


def last_rows(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the last row of the assistant, of each student and of closed forms.

    Where a teacher's vectors are reduced, also its own row and one of each width.
    """
    found = {}
    reduced = any(row["kind"].startswith("reduced_") for row in rows)
    for row in rows:
        if row["kind"] in ("assistant", "stage"):
            found[row.get("student", "assistant")] = row
        elif row["kind"] == "closed_form":
            found[row["name"]] = row
        elif reduced and row["kind"] != "untrained":
            found[row["kind"]] = row
    return found


def measure(
    recipe: str, folder: Path, seed: int, changes: Changes, given: argparse.Namespace
) -> dict[str, Any]:
    """Run a recipe with one seed; return sizes, scores and seconds of every row.

    Rows that were scored on their way have `curves`: (update, score) by the score.
    `last_tenth` has, by the step of a run, how far the score across languages moved in
    the last tenth of its updates.
    """
    done = run(
        recipe,
        folder,
        given.scale,
        data_dir=given.data,
        store_dir=given.store,
        overrides={**changes, "recipe.seed": seed},
        share_steps=True,
    )
    timings = done["timings"]
    rows = {
        name: {key: row[key] for key in ("parameters", *SCORES) if key in row}
        for name, row in last_rows(done["rows"]).items()
    }
    files = read_run(folder)
    for row in run_rows(files):
        if curves := row.curves():
            rows[row.model or "student"]["curves"] = curves
    return {
        "seconds": timings["seconds"],
        "seconds_reused": round(sum(timings["reused"].values()), 3),
        "rows": rows,
        "last_tenth": {
            step: round(scores[-1] - scores[0], 3)
            for step, record in files.histories.items()
            if len(scores := record.get(LAST_TENTH, {}).get("cross_lingual", ())) > 1
        },
    }


@contextlib.contextmanager
def alone(result: Path) -> Iterator[None]:
    """Keep other runs from a result until this one has read it and written."""
    folder = os.open(result.parent, os.O_RDONLY)  # a lock that leaves no file
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def over_seeds(
    name: str,
    recipe: str,
    changes: Changes,
    given: argparse.Namespace,
    most: int | None = None,
) -> None:
    """Run and keep what is not there yet of a recipe, as `name`; print its table.

    Args:
        name: Of the result, and of the runs' folders.
        recipe: The recipe.
        changes: What is set in it.
        given: The options of `parser`.
        most: At most so many of the seeds.
    """
    named = said(changes)
    settings = settings_digest(recipe, given.scale, named)
    new = {"recipe": recipe, "changes": named, "settings": settings, "seeds": {}}

    def kept() -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the file has now, others may write to it, and its seeds."""
        result: dict[str, Any] = {"scale": given.scale, "tables": {}}
        if given.result.is_file():
            result = read_json(given.result)
        if result["scale"] != given.scale:
            raise SystemExit(f"{given.result} is of scale {result['scale']}; move it.")
        found = result["tables"].setdefault(name, new)
        if found["settings"] != settings:
            raise SystemExit(f"{given.result} has {name} as it was; move the file.")
        return result, found["seeds"]

    for seed in given.seeds[:most]:
        if str(seed) not in kept()[1]:
            folder = given.out / f"{name.replace(' ', '_')}_{seed}"
            measured = measure(recipe, folder, seed, changes, given)
            with alone(given.result):
                result, seeds = kept()
                seeds[str(seed)] = measured
                write_json(given.result, result)
    print(shown(name, recipe, given.scale, kept()[1]), flush=True)


def shown(
    name: str, recipe: str, scale: str, seeds: Mapping[str, dict[str, Any]]
) -> str:
    """Return a table of means, with half the range where there are several seeds."""
    lines = [f"\n{name}: Spearman and P@1 x 100, seeds {', '.join(seeds)}"]
    loaded = load_recipe(recipe, scale)
    about, settings = dict(loaded.recipe.rows), loaded.settings()
    about.pop("teacher", None)  # the paper's is another
    runs = [one["rows"] for one in seeds.values()]
    for row, first in runs[0].items():
        cells = [
            (about[row].row if row in about else row).ljust(46),
            f"{first['parameters']:>12,}" if "parameters" in first else " " * 12,
        ]
        for key in [key for key in SCORES if key in first]:
            values = [rows[row][key] for rows in runs]
            cell = f"{key} {np.mean(values):6.2f} +- {np.ptp(values) / 2:.2f}"
            scores = about[row].expected if row in about else {}
            printed = {our_name(k): score for k, score in scores.items()}.get(key)
            other = other_set(settings, key)
            paper = f"paper{other and f' on {other}'} {printed}"
            cells.append(cell if printed is None else f"{cell} ({paper})")
        lines.append("  ".join(cells))
    moved: dict[str, list[float]] = {}
    for one in seeds.values():
        for step, by in one["last_tenth"].items():
            moved.setdefault(step, []).append(by)
    if moved:
        means = [f"{step} {np.mean(by):+.2f}" for step, by in moved.items()]
        lines.append("moved across languages in the last tenth: " + ", ".join(means))
    return "\n".join(lines)
