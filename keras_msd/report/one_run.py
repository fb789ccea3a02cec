"""The report of a run: one HTML page that needs no other file and no network."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from keras_msd.evaluate.rows import asked_sets
from keras_msd.report.blocks import (
    Block,
    Html,
    Picture,
    Table,
    Terms,
    Text,
    section,
    whole_page,
    write_page,
)
from keras_msd.report.differences import NO_PAPER_SCALE, OURS, differences
from keras_msd.report.files import RunFiles, read_run
from keras_msd.report.paper_tables import (
    compared,
    elsewhere,
    other_set,
    run_rows,
    score_tables,
)
from keras_msd.report.plots import loss_curves, sizes, stage_scores
from keras_msd.report.score_rows import (
    BIG,
    ScoreRow,
    best,
    by_student,
    columns,
    final_rows,
    having,
    measured,
    model_row,
    number,
    plain,
)
from keras_msd.report.words import settings_in_words

OWN = "A recipe of our own, no row of a paper"


def write_report(run_folder: str | Path) -> Path:
    """Write `report.html` into the folder of a finished run.

    Every number comes from `recipe.toml`, `scores.json`, `timings.json`,
    `stages/<stage>/history.json`, `stages/pairs/done.json` or `neighbours.json` of that
    folder, and the page names which. The same files give the same bytes.

    Args:
        run_folder: The folder that `recipes.run` made.

    Returns:
        The path of the page.

    Raises:
        InputError: A file is missing or broken.

    Example:
        >>> from pathlib import Path
        >>> scores = '{"recipe": "mine", "scale": "lab", "rows": []}'
        >>> files = {"recipe.toml": "recipe.name = 'mine'", "scores.json": scores}
        >>> files["timings.json"] = '{"parts": {"stages": 150.0}}'
        >>> sizes = [Path(name).write_text(text) for name, text in files.items()]
        >>> "<th scope=row>stages</th><td>2.5</td>" in (
        ...     msd.report.write_report(".").read_text()
        ... )
        True
    """
    folder = Path(run_folder)
    run = read_run(folder)
    text = (folder / "recipe.toml").read_text(encoding="utf-8")
    return write_page(folder / "report.html", _page(run, text))


def _page(run: RunFiles, recipe_text: str) -> str:
    about = run.recipe.get("recipe", {})
    title = about.get("title") or run.scores["recipe"]
    lead = f"Recipe {run.scores['recipe']}, scale {run.scores['scale']}."
    lead += f" {about.get('paper') or OWN}."
    if part := run.scores.get("part"):
        lead += f" Scores are of the half `{part}` of each set."
    # What each part shows, and the file that its numbers come from.
    parts = (
        ("Scores", _scores, "scores.json"),
        ("Quality", _figures, "scores.json"),
        ("Published and measured", _published, "scores.json, recipe.toml"),
        ("Nearest neighbours across languages", _neighbours, "neighbours.json"),
        ("Losses", _losses, "stages/<stage>/history.json"),
        ("Rows that were skipped", _dirty_rows, "stages/pairs/done.json"),
        ("Time", _timings, "timings.json, recipe.toml"),
        ("Settings", _settings, "recipe.toml"),
        ("What differs from the paper", _differences, "recipe.toml"),
    )
    body = "".join(section(name, blocks(run), file) for name, blocks, file in parts)
    return whole_page(
        title,
        f"<h1>{escape(title)}</h1>\n<p>{escape(lead)}</p>\n{body}<details><summary>"
        f"recipe.toml</summary><pre>{escape(recipe_text)}</pre></details>\n",
    )


def _scores(run: RunFiles) -> Iterator[Block]:
    rows = run.scores["rows"]
    keys = columns(rows)
    top = {key: best(rows, key) for key in keys}
    body = [
        [plain(row["name"]), *(_cell(row, key, top[key]) for key in keys)]
        for row in rows
    ]
    yield Table(["model", *map(_label, keys)], body)
    yield Text(
        "Bold: best in its column, teacher and assistant aside. 1 MB is 10⁶ bytes."
    )


def _figures(run: RunFiles) -> Iterator[Block]:
    rows = run.scores["rows"]
    students = [row for steps in by_student(rows).values() for row in steps]
    for key in ("cross_lingual", "retrieval"):
        if having(students, key):
            svg = stage_scores(rows, key)
            yield Picture(f"{plain(key)} after each stage", svg)
        points = {
            plain(row["name"]): [(row["bytes"] / 1e6, row[key])]
            for row in having(final_rows(rows), key, "bytes")
        }
        if points:
            svg = sizes(points, f"{plain(key)}, x100")
            yield Picture(f"{plain(key)} against size", svg)


def _losses(run: RunFiles) -> Iterator[Block]:
    for name, history in run.histories.items():
        if history["steps"]:
            caption = f"{plain(name)} ({name}/history.json)"
            yield Picture(caption, loss_curves(history))
        if found := history.get("collapsed"):
            yield Text(
                f"Embeddings of {plain(name)} collapsed: a mean cosine of "
                f"{found['mean_cosine']:.3f} between different sentences after "
                f"{found['updates']} updates."
            )
        if skipped := history.get("bad_batches"):
            yield Text(f"{plain(name)} skipped {skipped} batches that were not finite.")


def _published(run: RunFiles) -> Iterator[Block]:
    """Yield published numbers beside measured ones, where the recipe has rows."""
    about = run.recipe.get("recipe", {})
    rows = [row for row in run_rows(run) if row.published]
    if about.get("rows") and rows:
        yield from score_tables(rows)
    elif run.scores.get("published"):
        yield from _published_scores(run)
    else:
        return
    where = ", ".join(
        f"{word}{about[key]}"
        for key, word in (("paper", ""), ("table", "table "), ("row", "row "))
        if about.get(key)
    )
    sets = [asked.words for asked in asked_sets(run.recipe)] or ["its own set"]
    yield Text(
        f"Published: {where or 'the recipe'}. Measured: this run, scale "
        f"{run.scores['scale']}, on {', '.join(sets)}: other data and "
        "another scale give other numbers."
    )


def _published_scores(run: RunFiles) -> Iterator[Block]:
    body, others = [], []
    row = model_row(run.scores["rows"])
    for key, score in run.scores["published"].items():
        value = measured(run.scores, key)
        others.append("" if value is None else other_set(run.recipe, key, row))
        found, printed, gap = compared(value, score, others[-1], 2)
        body.append([_label(key), printed, found, gap])
    yield Table(["score", "published", "measured", "difference"], body)
    yield from elsewhere(others)


def _neighbours(run: RunFiles) -> Iterator[Block]:
    body = []
    for item in run.neighbours:
        code = escape(item["language"])
        nearest = "".join(
            f"<li>{escape(near['sentence'])} <small>{near['cosine']:.3f}</small></li>"
            for near in item["neighbours"]
        )
        query = f"<span lang='{code}' dir=auto>{escape(item['query'])}</span>"
        body.append([item["language"], Html(query), Html(f"<ol>{nearest}</ol>")])
    if body:
        heads = ["language", "query", "nearest sentences held out, cosine"]
        yield Table(heads, body, words=True)


def _dirty_rows(run: RunFiles) -> Iterator[Block]:
    body = []
    for count in run.counts:
        if dirty := count.get("dirty"):
            worst = "".join(f"<li>{escape(it)}</li>" for it in count["dirty_rows"])
            rows = f"{dirty:,} of {count['read'] + dirty:,}"
            body.append([count["name"], rows, Html(f"<ol>{worst}</ol>")])
    if body:
        heads = ["file", "rows", "each kind of fault, the most frequent first"]
        yield Table(heads, body, words=True)


def _timings(run: RunFiles) -> Iterator[Block]:
    """Yield the time of each part, against its budget where the recipe has one."""
    parts, budget = run.timings["parts"], run.recipe.get("budget", {})
    heads = ["part", "minutes"] + (["budget, minutes", ""] if budget else [])
    body = []
    for name in dict.fromkeys([*parts, *budget]):
        minutes, limit = _minutes(parts.get(name)), budget.get(name)
        over = limit is not None and parts.get(name, 0) > 60 * limit
        mark = Html("<b>over</b>") if over else ""
        body.append([_label(name), minutes, number(limit), mark])
    total = [_minutes(sum(parts.values())), number(sum(budget.values()))]
    body.append(["all", *total, ""])
    yield Table(heads, [cells[: len(heads)] for cells in body])
    if reused := run.timings.get("reused", {}):
        yield Text(
            f"{len(reused)} steps were taken from another run, where they took "
            f"{_minutes(sum(reused.values()))} minutes."
        )
    if speed := run.timings.get("speed"):
        speeds = [[_label(name), f"{value:,.0f}"] for name, value in speed.items()]
        yield Table(["model", "sentences a second"], speeds)


def _settings(run: RunFiles) -> Iterator[Block]:
    yield Terms(settings_in_words(run.recipe))


def _differences(run: RunFiles) -> Iterator[Block]:
    found = differences(run.recipe)
    yield found.block() if found else Text(NO_PAPER_SCALE)
    if found and found.ours:
        yield Table(OURS, found.ours, words=True)


def _cell(row: ScoreRow, key: str, top: float | None) -> str:
    value = row.get(key)
    if value is None or isinstance(value, str | bool):
        return ""
    if key == "parameters":
        return f"{value:,}"
    if key.endswith("bytes"):
        return f"{value / 1e6:,.2f}"
    bold = value == top and row.get("kind") not in BIG
    return Html(f"<b>{value:.2f}</b>") if bold else number(value, 2)


def _label(key: str) -> str:
    return plain(key).replace("bytes", "MB")


def _minutes(seconds: float | None) -> str:
    return "" if seconds is None else number(seconds / 60)
