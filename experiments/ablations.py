r"""The papers' tables at lab size: each row over several seeds, and its start.

All rows of a table have the same pairs in the same order and as many updates. Steps
that rows, tables and seeds share are done once; a stopped run resumes; a seed that is
in the result is not run again. Scores are of the reported half of each set.

    python experiments/ablations.py --data DATA

The same command with `--starts` measures what the rows began from. `--table` picks
tables; `--assistant` is an encoder that takes the place of the recipe's assistant:

    python experiments/ablations.py --scale backbone --table msd_tradeoffs --data DATA \
        --assistant small12 --result experiments/results/ablations_backbone.json
"""

import argparse
import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_msd.io.files import digest, read_json, write_json
from keras_msd.load import load_encoder
from keras_msd.recipes import load_recipe, run
from keras_msd.report.runs import RunFiles, read_run

RESULT = Path(__file__).parent / "results" / "ablations.json"
SCORES = ("retrieval", "cross_lingual", "monolingual", "language_bias")
LAST_TENTH = "last_tenth"  # a stage's `scored`, and what its history calls the scores
Changes = Mapping[str, Any]

# Name of a table: its recipe, and what is changed in it.
TABLES: dict[str, tuple[str, Changes]] = {
    "msd_ablations": ("msd_ablations", {}),
    "msd_stages, SVD starts": ("msd_stages", {"student.start": "svd"}),
    "msd_stages, after each stage": (
        "msd_stages",
        {
            "student.start": "svd",
            "student.variants": None,
            "evaluate.intermediate": "full",
        },
    ),
    "msd_sizes": ("msd_sizes", {}),
    "msd_layers": ("msd_layers", {}),
    "msd_convergence": ("msd_convergence", {}),
    "xkd_amounts": ("xkd_amounts", {}),
    "lealla_lab": ("lealla_lab", {}),
    "lealla_lab, fitted dense layer": (
        "lealla_lab",
        {"stages.teach_thin_deep.dense_start": "fitted"},
    ),
    "lealla_search": ("lealla_search", {}),
    "msd_tradeoffs": ("msd_tradeoffs", {}),
    "lealla_features": ("lealla_features", {}),
    "lealla_dimensions": ("lealla_dimensions", {}),
    "lealla_shapes": ("lealla_shapes", {}),
    "lealla_shapes, rate 2e-4": (
        "lealla_shapes",
        {"stages.teach_thin_deep.learning_rate": 2e-4},
    ),
}
OF_BACKBONE = "msd_tradeoffs"  # has no scale lab
STS_ALONE = (
    "msd_ablations",
    "msd_stages",
    "msd_sizes",
    "msd_layers",
    "msd_convergence",
)
USUAL = [name for name in TABLES if name != OF_BACKBONE]


def changes_of(table: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return what is set in a table's recipe, the encoder that was given included.

    Stages without a curve are scored after nine tenths of their updates, too.
    """
    recipe, own = TABLES[table]
    loaded = load_recipe(recipe, given.scale)
    changes: dict[str, Any] = {
        "evaluate.part": "report",
        "evaluate.intermediate": "none",
        "evaluate.artefacts": False,
        "evaluate.sets": [
            name
            for name in loaded.evaluate.sets
            if name != "tatoeba" or recipe not in STS_ALONE
        ],
        **own,
    }
    for name, stage in loaded.stages.items():
        if not stage.skip and getattr(stage, "scored", LAST_TENTH) is None:
            changes[f"stages.{name}.scored"] = LAST_TENTH
    if given.assistant and loaded.assistant.source != "none":
        changes["assistant.source"] = str(given.assistant)
    return changes


def untrained(recipe: str, scale: str, changes: Changes, stage_1: bool) -> Changes:
    """Return changes with training that moves no score: two updates at a rate of 1e-9.

    Args:
        recipe: The recipe.
        scale: Its scale.
        changes: What is changed in it anyhow.
        stage_1: Whether stage 1 trains as usual, since students begin as parts of the
            assistant after it.
    """
    loaded = load_recipe(recipe, scale, changes)
    with_assistant = loaded.assistant.source != "none"
    found = {**changes}
    own = [
        "student.stages.",
        *(f"student.variants.{name}.stages." for name in loaded.student.variants),
    ]
    for name, stage in loaded.stages.items():
        if stage.skip and not (with_assistant and name == "align_embedding"):
            continue
        if stage_1 and name == "teach_assistant":
            continue
        of_students = name != "teach_assistant"
        for place in ["stages.", *(own if of_students else [])]:
            found[f"{place}{name}.steps"] = 2
            found[f"{place}{name}.learning_rate"] = 1e-9
        if hasattr(stage, "scored"):
            found.pop(f"stages.{name}.scored", None)
        if hasattr(stage, "warmup_steps"):
            found[f"stages.{name}.warmup_steps"] = 1
    if loaded.reduction.widths:
        found |= {"reduction.steps": 2, "reduction.learning_rate": 1e-9}
    return found


def named(changes: Changes) -> dict[str, Any]:
    """Return changes with the fingerprint of the assistant instead of its folder."""
    found = dict(changes)
    if source := found.get("assistant.source"):
        found["assistant.source"] = load_encoder(source).fingerprint
    return found


def settings_digest(recipe: str, scale: str, changes: Changes) -> str:
    """Return a hash of a recipe's settings with changes; titles do not count."""
    settings = load_recipe(recipe, scale, changes)
    return digest(settings.model_dump_json(exclude={"recipe"}, exclude_none=True))


def last_rows(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the last row of the assistant, of each student and of closed forms.

    Where a teacher's vectors are reduced, also its own row and one of each width. Where
    encoders are measured in full before their last stage, also these rows, by name.
    """
    found: dict[str, dict[str, Any]] = {}
    reduced = any(row["kind"].startswith("reduced_") for row in rows)
    for row in rows:
        if row["kind"] in ("assistant", "stage"):
            name = row.get("student", "assistant")
            if "monolingual" in (before := found.get(name, {})):
                found[before["name"]] = before
            found[name] = row
        elif row["kind"] == "closed_form":
            found[row["name"]] = row
        elif reduced and row["kind"] != "untrained":
            found[row["kind"]] = row
    return found


def curves_of(run: RunFiles, student: str) -> dict[str, list[tuple[int, float]]]:
    """Return (update, score) by the score, of a student's last stage that has some."""
    suffix = student.removeprefix("student")
    found: dict[str, list[tuple[int, float]]] = {}
    for stage in run.recipe.get("stages", {}):
        history = run.histories.get(f"{stage}{suffix}", {})
        scores = dict(history.get("scores", {}))
        steps = scores.pop("steps", ())
        found = {
            key: list(zip(steps, values, strict=True)) for key, values in scores.items()
        } or found
    return found


def run_table(
    table: str, folder: Path, seed: int, changes: Changes, given: argparse.Namespace
) -> dict[str, Any]:
    """Run a table's recipe with one seed; return sizes, scores and seconds of its rows.

    Rows that were scored on their way have `curves`: (update, score) by the score.
    By the step of a run, `ends` has the cross-lingual score after it, and `last_tenth`
    how far that moved in the last tenth of its updates.
    """
    done = run(
        TABLES[table][0],
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
    for name in rows:
        if name.startswith("student") and (curves := curves_of(files, name)):
            rows[name]["curves"] = curves
    tenths = {
        step: scores
        for step, record in files.histories.items()
        if len(scores := record.get(LAST_TENTH, {}).get("cross_lingual", ())) > 1
    }
    return {
        "seconds": timings["seconds"],
        "seconds_reused": round(sum(timings["reused"].values()), 3),
        "rows": rows,
        "ends": {step: scores[-1] for step, scores in tenths.items()},
        "last_tenth": {
            step: round(scores[-1] - scores[0], 3) for step, scores in tenths.items()
        },
    }


def run_starts(table: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of what each row of a table begins from, of one seed."""
    recipe, folder = TABLES[table][0], given.out / "starts" / table.replace(" ", "_")
    changes, seed = changes_of(table, given), given.seeds[0]
    of_students = untrained(recipe, given.scale, changes, stage_1=True)
    rows = run_table(table, folder, seed, of_students, given)["rows"]
    loaded = load_recipe(recipe, given.scale, changes)
    if "assistant" in rows and not loaded.stages["teach_assistant"].skip:
        alone = untrained(recipe, given.scale, changes, stage_1=False)
        alone = {k: v for k, v in alone.items() if not k.startswith("student.")}
        alone["student.kind"] = "none"
        folder = folder.with_name(f"{folder.name}_assistant")
        first = run_table(table, folder, seed, alone, given)["rows"]
        rows |= {"assistant": first["assistant"]}
    return {
        name: {key: row[key] for key in SCORES if key in row}
        for name, row in rows.items()
        if not name.startswith("closed form") and name != "teacher"
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


def over_seeds(table: str, given: argparse.Namespace) -> None:
    """Run the seeds of a table that are missing, or its starts, into the result."""
    recipe, changes = TABLES[table][0], changes_of(table, given)
    settings = settings_digest(recipe, given.scale, named(changes))
    about = {"recipe": recipe, "changes": named(changes), "settings": settings}

    def kept() -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the result as it is now, others may write to it, and the table."""
        result: dict[str, Any] = {"scale": given.scale, "tables": {}}
        if given.result.is_file():
            result = read_json(given.result)
        if result["scale"] != given.scale:
            raise SystemExit(f"{given.result} is of scale {result['scale']}; move it.")
        found = result["tables"].setdefault(table, about | {"seeds": {}})
        if found["settings"] != settings and not given.starts:
            raise SystemExit(f"{given.result} has {table} as it was; move the file.")
        return result, found

    def keep(change: dict[str, Any]) -> None:
        with alone(given.result):
            result, found = kept()
            for key, value in change.items():
                found[key] = found.get(key, {}) | value
            write_json(given.result, result)

    if given.starts:
        keep({"starts": run_starts(table, given)})
        return
    for seed in given.seeds:
        if str(seed) not in kept()[1]["seeds"]:
            folder = given.out / f"{table.replace(' ', '_')}_{seed}"
            measured = run_table(table, folder, seed, changes, given)
            keep({"seeds": {str(seed): measured}})


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    found = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    found.add_argument("--table", nargs="+", choices=TABLES, default=USUAL)
    found.add_argument("--data", type=Path)
    found.add_argument("--assistant", type=Path, help="folder, as before stage 1")
    found.add_argument("--starts", action="store_true", help="what rows begin from")
    found.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    found.add_argument("--scale", default="lab")
    found.add_argument("--out", type=Path, default=Path("runs/ablations"))
    found.add_argument("--store", type=Path, help="embedding cache and shared steps")
    found.add_argument("--result", type=Path, default=RESULT)
    return found


def main() -> None:
    """Run what is not in the result yet."""
    given = parser().parse_args()
    for table in given.table:
        over_seeds(table, given)


if __name__ == "__main__":
    main()
