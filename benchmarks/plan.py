"""Does `keras-msd plan` say what a run then needs?

Constants are measured with random encoders and a made corpus, as `--calibrate` does;
two recipes are planned from the data folder, then run, each in a process of its own:
one of 12 layers of width 128 on German pairs, one of 6 of width 384 on French ones. A
stage's seconds are those of its updates without the first two, in which TensorFlow
traces the step, times what there are; these first two stand apart as `compile`. Bytes
are those of tables and stores on disk, and the most that the process held while a stage
trained: of later stages with what earlier ones left, as a process gives little back. A
ratio is the planned number by the measured one:

    python benchmarks/plan.py --data DATA --json
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "plan.json"
BOUND = 1.25
RECIPE, SCALE = "msd_minilm_b128_ru3", "lab"
ALIKE: dict[str, Any] = {
    "data.corpora": ["wmt-news", "ms-courses"],
    "tokenizer.vocabulary_size": 6000,
    "assistant.start": "random",
    "student.start": "random",
    "starts.closed_form": False,
    "evaluate.sets": ["stsb"],
    "evaluate.intermediate": "none",
    "evaluate.artefacts": False,
}
CASES: dict[str, dict[str, Any]] = {
    "12 x 128": {
        "data.languages": ["de"],
        "evaluate.languages.stsb": ["de"],
        "data.pairs_per_file": 1500,
        "stages.teach_assistant.steps": 16,
        "stages.align_embedding.steps": 60,
        "stages.teach_student.steps": 14,
        "stages.contrastive_learning.steps": 14,
    },
    "6 x 384": {
        "data.languages": ["fr"],
        "evaluate.languages.stsb": ["fr"],
        "data.pairs_per_file": 1000,
        "assistant.num_layers": 6,
        "assistant.hidden_dim": 384,
        "assistant.num_heads": 12,
        "assistant.intermediate_dim": 1536,
        "stages.teach_assistant.steps": 20,
        "stages.teach_assistant.batch_size": 48,
        "stages.align_embedding.steps": 60,
        "stages.teach_student.steps": 14,
        "stages.teach_student.batch_size": 48,
        "stages.contrastive_learning.steps": 14,
        "stages.contrastive_learning.batch_size": 48,
    },
}


def measured(overrides: dict[str, Any], data: Path, scratch: Path) -> dict[str, Any]:
    """Return what a run needs, see plan_worker.py."""
    scratch.mkdir()
    job = scratch / "job.json"
    about = {"recipe": RECIPE, "scale": SCALE, "data": str(data)}
    about |= {"out": str(scratch / "run"), "store": str(scratch / "store")}
    job.write_text(json.dumps(about | {"overrides": overrides}), encoding="utf-8")
    log = scratch / "log.txt"
    with open(log, "w", encoding="utf-8") as file:
        command = [sys.executable, str(HERE / "plan_worker.py"), str(job)]
        done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(log.read_text(encoding="utf-8")[-2000:])
    return json.loads(job.with_suffix(".found.json").read_text(encoding="utf-8"))


def compared(plan: dict[str, Any], found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows of a planned and a measured number each.

    The parts of a run, and their sum of seconds and of bytes.
    """
    seconds, stages = found["seconds"], plan["stages"]
    guides = {it["guide"]: it["seconds"] for it in plan["guides"]}
    pairs = [("updates of " + it["step"], it["seconds"], seconds["stages"][it["step"]])
             for it in stages]  # fmt: skip
    pairs += [
        (f"vectors of {name}", it, seconds["guides"][name])
        for name, it in guides.items()
    ]
    pairs.append(("reading pairs", plan["texts"]["read"], seconds["texts"]["read"]))
    rows = [_row(what, "seconds", *both) for what, *both in pairs]
    rows.append(_row("seconds in all", "seconds", *_sums(pairs)))
    held = [
        (f"held in {it['step']}", it["memory_bytes"], found["resident"][it["step"]])
        for it in stages
    ]
    most = max(it for _, it, _ in held), max(it for _, _, it in held)
    held.append(("resident at most", *most))
    stored = [
        (f"{name} on disk", plan["stores"][name], it)
        for name, it in found["bytes"].items()
    ]
    rows += [_row(what, "bytes", *both) for what, *both in (*held, *stored)]
    rows.append(_row("bytes on disk in all", "bytes", *_sums(stored)))
    return rows


def _sums(pairs: list[tuple[str, float, float]]) -> tuple[float, float]:
    return sum(planned for _, planned, _ in pairs), sum(it for *_, it in pairs)


def _row(what: str, unit: str, planned: float, found: float) -> dict[str, Any]:
    digits = 2 if unit == "seconds" else None
    row = {"what": what, "unit": unit, "planned": round(planned, digits)}
    return row | {"measured": round(found, digits), "ratio": round(planned / found, 3)}


def main() -> int:
    """Calibrate, plan, run, write the result, print it; 1 if a sum is off by 25 %."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--constants", type=Path, help="else measured now")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()

    from dataclasses import asdict

    from keras_msd.files import write_json
    from keras_msd.plan import calibrate, plan_recipe
    from keras_msd.plan.constants import read_calibration

    began = time.monotonic()
    cases = {}
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        if given.constants:
            known = read_calibration(given.constants)
        else:
            known = calibrate(scratch / "calibration.json")
        calibrated = time.monotonic() - began
        for name in given.case or CASES:
            overrides = ALIKE | CASES[name]
            plan = plan_recipe(
                RECIPE,
                scale=SCALE,
                data_dir=given.data,
                overrides=overrides,
                calibration=known,
            )
            found = measured(overrides, given.data, scratch / name.replace(" ", ""))
            rows = compared(plan, found)
            cases[name] = {
                "rows": rows,
                "compile": {
                    step: round(it, 2)
                    for step, it in found["seconds"]["compile"].items()
                },
                "whole_run_seconds": round(found["whole"], 1),
            }
            for row in rows:
                print(
                    f"{name:9} {row['what']:38} {row['planned']:>14,} planned "
                    f"{row['measured']:>14,} measured {row['ratio']:6.2f}"
                )
    chief = [
        row["ratio"]
        for case in cases.values()
        for row in case["rows"]
        if row["what"].endswith("in all") or row["what"].startswith("resident")
    ]
    result = {
        "cases": cases,
        "constants": asdict(known),
        "calibration_seconds": round(calibrated, 1),
        "furthest_ratio": max(chief, key=lambda it: max(it, 1 / it)),
        "backend": os.environ.get("KERAS_BACKEND", "tensorflow"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    write_json(given.out, result)
    if given.json:
        print(json.dumps(result, sort_keys=True))
    furthest = result["furthest_ratio"]
    return int(not 1 / BOUND <= furthest <= BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
