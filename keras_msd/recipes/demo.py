"""The demo: a recipe on sentences of Tatoeba, and a search with its student."""

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


# Held out, as are the English sentences that are searched.
QUERY = "Ich besuche gerade meine Großmutter im Krankenhaus."


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
    from keras_msd.data.examples import example_pairs

    artefact = Path(result["artefacts"][0])
    held_out = example_pairs(split="dev")
    sentences = list(dict.fromkeys(pair.source for pair in held_out))
    matches = search_alone(artefact, QUERY, sentences)
    return result | {
        "query": QUERY,
        "matches": matches,
        "broken": broken_rules(result["rows"]),
    }


def broken_rules(rows: list[Mapping[str, Any]]) -> list[str]:
    """Return which of the demo's promises the score rows do not keep.

    The student is above every closed form of at most its bytes: in agreement with the
    teacher across languages, and in finding held-out translations.
    """
    *_, student = (row for row in rows if row["kind"] == "stage")
    smaller = [
        row
        for row in rows
        if row["kind"] == "closed_form" and row["bytes"] <= student["bytes"]
    ]
    return [
        f"{student['name']} ({student[score]:.2f}) > {row['name']} ({row[score]:.2f}), "
        f"{score}"
        for row in smaller
        for score in ("cross_lingual", "held_out")
        if student[score] <= row[score]
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
