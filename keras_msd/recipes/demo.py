"""The demo: a recipe on sentences of Tatoeba, and a search with its student."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_msd.recipes.runner import run

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
        What `run` returns, and `query`, a German sentence, `matches`, the English
        sentences that the exported student finds for it, and `broken`, the rules that
        the scores do not keep.

    Example:
        `run_demo()["matches"]` takes some minutes. The demo has two scales:

        >>> msd.recipes.run_demo("demo", scale="paper")
        Traceback (most recent call last):
            ...
        keras_msd.checks.InputError: `scale` must be one of 'smoke', 'demo'. ...
    """
    result = run("demo", out_dir, scale, store_dir=store_dir)
    from keras_msd.data.examples import example_pairs
    from keras_msd.evaluate.nearest import search
    from keras_msd.export.artefact import load_artefact

    english = dict.fromkeys(pair.source for pair in example_pairs(split="dev"))
    artefact = load_artefact(result["artefacts"][0])
    found = search(artefact, QUERY, list(english), top=3)
    return result | {
        "query": QUERY,
        "matches": [{"cosine": it.cosine, "sentence": it.sentence} for it in found],
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
