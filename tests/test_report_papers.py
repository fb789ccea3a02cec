"""Reports say which row of a paper a run is, and what differs from the paper."""

import json
import re
import tomllib
from html import unescape

import tomli_w

from keras_msd.recipes.load import (
    describe,
    load_recipe,
    recipe_folder,
    recipe_names,
    recipe_places,
)
from keras_msd.report import write_report
from keras_msd.report.reports import differences


def add(folder, name, rows, scale="paper", **overrides):
    """Write the folder of a finished run of a packaged recipe; return it."""
    own = folder / name
    own.mkdir(parents=True)
    recipe = load_recipe(name, scale, overrides)
    (own / "recipe.toml").write_text(tomli_w.dumps(recipe.settings()), encoding="utf-8")
    scores = {"recipe": name, "scale": scale, "rows": rows}
    (own / "scores.json").write_text(json.dumps(scores))
    (own / "timings.json").write_text('{"parts": {}}')
    return own


def page_of(folder):
    """Return the text of a run's report, cells set apart by bars."""
    text = re.sub("<svg.*?</svg>", "", write_report(folder).read_text(), flags=re.S)
    return unescape(re.sub("(<[^>]*>)+", "|", text))


def test_what_is_not_as_published_is_listed(tmp_path):
    page = page_of(add(tmp_path / "a", "msd_minilm_ru3", []))
    row = "MiniLM <- SBERT-paraphrases, no bottleneck, RU 3"
    assert f"Findings of NAACL 2022, table 1 and 2; 7 and 8, row {row}. Eval" in page
    assert "As published." not in page
    row = "stages.contrastive_learning.dims|mean|the paper prints a sum"
    assert row in page and "|paper scale|" not in page
    changes = {"stages.contrastive_learning.temperature": 0.25}
    page = page_of(add(tmp_path / "b", "msd_minilm_ru3", [], **changes))
    assert "|stages.contrastive_learning.temperature|0.25|0.05|" in page
    page = page_of(add(tmp_path / "c", "tiny12", [], "lab"))
    assert "scale lab. A recipe of our own, no row of a paper." in page
    assert "The recipe has no paper scale" in page


def test_every_value_that_a_file_calls_ours_is_listed():
    listed = set()
    for name, (path, row) in recipe_places().items():
        if "paper" not in describe(name).scales:
            continue
        ours = set(describe(name).ours)
        listed |= {(name.partition("_")[0], key) for key in ours}
        for file in (path, *extended(path))[: 1 if name.startswith("xkd") else None]:
            assert set(called_ours(file, row)) <= ours, (file, row)
    assert {name for name, _ in listed} == {"lealla", "msd", "xkd"}
    found = set(called_ours(recipe_folder() / "_shared_lealla.toml"))
    assert "stages.teach_thin_deep.clip_norm" in found and len(found) >= 6


def test_every_reason_is_of_a_setting():
    for authors in ("Ding et al.", "Mao and Nakagawa"):
        abouts = [describe(name) for name in recipe_names()]
        names = [
            about.name
            for about in abouts
            if "paper" in about.scales and about.citation.startswith(authors)
        ]
        recipes = [load_recipe(name, "paper").settings() for name in names]
        said = {key for recipe in recipes for key, _, _ in differences(recipe).ours}
        assert {key for recipe in recipes for key in recipe["recipe"]["ours"]} == said


def extended(path):
    """Yield the files that a recipe's file extends."""
    while base := tomllib.loads(path.read_text(encoding="utf-8")).get("extends"):
        path = recipe_folder() / f"{base}.toml"
        yield path


def called_ours(path, row=""):
    """Yield dotted keys that a comment calls ours or the authors' code's alone.

    Args:
        path: A file.
        row: The one of its rows that counts.
    """
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1 : line.index("]")]
        value, _, comment = line.partition("#")
        dotted = f"{section}.{value.partition('=')[0].strip()}"
        dotted = dotted.removeprefix(f"rows.{row}.").removeprefix("paper.")
        not_here = ("smoke", "lab", "backbone", "recipe", "rows")
        counts = dotted.partition(".")[0] not in not_here
        if "=" in value and re.search(r"\bours\b|^ authors' code", comment) and counts:
            yield dotted
