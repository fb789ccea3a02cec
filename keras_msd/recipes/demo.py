"""The demo: a recipe on made sentences, and a search with what came out of it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_msd.recipes.runner import run

# An entry of None in sys.modules makes an import fail as if nothing were installed.
ALONE = """
import runpy, sys
sys.modules["keras"] = sys.modules["keras_msd"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_demo(
    out_dir: str | Path = "runs/demo",
    scale: str | None = None,
    store_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Run the recipe `demo`, check its scores and search with its artefact.

    Args:
        out_dir: The run's folder.
        scale: As for `run`.
        store_dir: As for `run`.

    Returns:
        What `run` returns, and `query`, a German sentence, `matches`, the
        English sentences nearest to it as a process without keras and keras_msd finds
        them, and `broken`, the rules that the scores do not keep.

    Example:
        `run_demo()["matches"]` takes some minutes. The demo has two scales:

        >>> msd.recipes.run_demo("demo", scale="paper")
        Traceback (most recent call last):
            ...
        keras_msd.checks.InputError: `scale` must be one of 'smoke', 'demo'. ...
    """
    result = run("demo", out_dir, scale, store_dir=store_dir)
    from keras_msd.data.made import DEMO_QUERY, DEMO_SENTENCES

    artefact = Path(result["artefacts"][0])
    matches = search_alone(artefact, DEMO_QUERY, list(DEMO_SENTENCES))
    return result | {
        "query": DEMO_QUERY,
        "matches": matches,
        "broken": broken_rules(result["rows"]),
    }


def broken_rules(rows: list[Mapping[str, Any]]) -> list[str]:
    """Return which of the demo's promises the score rows do not keep.

    The student is above the closed form of equal table bytes, that is above the
    untrained student; stage 4 is not below stage 3, which is above stage 2. All on
    held-out cross-lingual Spearman.
    """
    stage = {row["stage"]: row for row in rows if row["kind"] == "stage"}
    (untrained,) = (
        row for row in rows if row["kind"] == "untrained" and "stage" not in row
    )
    student = stage["contrastive_learning"]
    closed = min(
        (row for row in rows if row["kind"] == "closed_form"),
        key=lambda row: abs(row["table_bytes"] - student["table_bytes"]),
    )
    order = [
        (student, ">", closed),
        (closed, ">", untrained),
        (student, ">=", stage["teach_student"]),
        (stage["teach_student"], ">", stage["align_embedding"]),
    ]
    return [
        f"{left['name']} ({left['cross_lingual']:.2f}) {sign} {right['name']} "
        f"({right['cross_lingual']:.2f})"
        for left, sign, right in order
        if left["cross_lingual"] < right["cross_lingual"]
        or (sign == ">" and left["cross_lingual"] == right["cross_lingual"])
    ]


def search_alone(
    artefact: Path, query: str, sentences: list[str], top: int = 3
) -> list[dict[str, Any]]:
    """Search with a SavedModel in a process that can import neither keras nor us.

    Returns:
        `{"cosine", "sentence"}` of the nearest sentences, nearest first.
    """
    from keras_msd.export import loaders_folder

    script = loaders_folder() / "load_saved_model.py"
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "sentences.txt"
        lines.write_text("\n".join(sentences), encoding="utf-8")
        done = subprocess.run(
            [
                *(sys.executable, "-c", ALONE, str(script), str(artefact.resolve())),
                *("--query", query, "--sentences", str(lines), "--top", str(top)),
            ],
            cwd=folder,
            env=os.environ | {"PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"The artefact `{artefact}` does not run: {done.stderr}")
    matches = [line.split("\t", 1) for line in done.stdout.splitlines()]
    return [{"cosine": float(cosine), "sentence": text} for cosine, text in matches]
