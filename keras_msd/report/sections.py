"""The parts of the page, each with the name of the file it comes from."""

from html import escape
from typing import Any

from keras_msd.report.files import RunFiles
from keras_msd.report.paper_rows import run_rows
from keras_msd.report.paper_tables import score_tables
from keras_msd.report.plots import loss_curves, size_against, stage_scores
from keras_msd.report.rows import BIG, best, by_student, columns, measured, plain
from keras_msd.report.words import settings_in_words


def settings(run: RunFiles) -> str:
    """Return the recipe in words."""
    items = "".join(
        f"<dt>{escape(part)}</dt><dd>{escape(text)}</dd>"
        for part, text in settings_in_words(run.recipe)
    )
    return section("Settings", f"<dl>{items}</dl>", "recipe.toml")


def scores(run: RunFiles) -> str:
    """Return the table of sizes and scores."""
    rows = run.scores["rows"]
    keys = columns(rows)
    top = {key: best(rows, key) for key in keys}
    body = [
        [escape(plain(row["name"]))]
        + [_cell(key, row.get(key), row.get("kind"), top[key]) for key in keys]
        for row in rows
    ]
    note = "Bold: best in its column, teacher and assistant aside. 1 MB is 10⁶ bytes."
    heads = ["model", *map(_label, keys)]
    return section("Scores", _table(heads, body) + f"<p>{note}</p>", "scores.json")


def figures(run: RunFiles) -> str:
    """Return the score after each stage and size against quality."""
    rows = run.scores["rows"]
    shown = []
    students = [row for own in by_student(rows).values() for row in own]
    for key in ("cross_lingual", "retrieval"):
        if any(row.get(key) is not None for row in students):
            svg = stage_scores(rows, key)
            shown.append(_figure(f"{plain(key)} after each stage", svg))
        if any(row.get(key) is not None and row.get("bytes") for row in rows):
            svg = size_against(rows, key)
            shown.append(_figure(f"{plain(key)} against size", svg))
    if not shown:
        return ""
    return section("Quality", f"<div class=grid>{''.join(shown)}</div>", "scores.json")


def losses(run: RunFiles) -> str:
    """Return the loss curves of each stage."""
    shown = [
        _figure(f"{plain(name)} ({name}/history.json)", loss_curves(name, own))
        for name, own in run.histories.items()
        if own["steps"]
    ]
    if not shown:
        return ""
    grid = f"<div class=grid>{''.join(shown)}</div>"
    return section("Losses", grid, "stages/<stage>/history.json")


def published(run: RunFiles) -> str:
    """Return published numbers beside measured ones, where the recipe has rows."""
    about, own = run.recipe.get("recipe", {}), run.recipe.get("evaluate", {})
    rows = [row for row in run_rows(run) if row.expected]
    if about.get("rows") and rows:
        table = "".join(block.html() for block in score_tables(rows))
    elif run.scores.get("published"):
        table = _published(run.scores)
    else:
        return ""
    where = ", ".join(
        f"{word}{about[key]}"
        for key, word in (("paper", ""), ("table", "table "), ("row", "row "))
        if about.get(key)
    )
    sets = [f"{own.get('sts', 'its own set')} {own.get('split', '')}".strip()]
    larger = {"retrieval": "Tatoeba", "un": "UN", "bucc": "BUCC"}
    sets += [name for key, name in larger.items() if own.get(key)]
    note = (
        f"Published: {where or 'the recipe'}. Measured: this run, scale "
        f"{run.scores['scale']}, on {', '.join(sets)}: other data and another scale "
        "give other numbers."
    )
    text = f"{table}<p>{escape(note)}</p>"
    return section("Published and measured", text, "scores.json, recipe.toml")


def _published(scores: dict[str, Any]) -> str:
    body = []
    for key, value in scores["published"].items():
        own = measured(scores, key)
        gap = "" if own is None else f"{own - value:+.2f}"
        body.append([_label(key), _number(value), _number(own), gap])
    return _table(["score", "published", "measured", "difference"], body)


def neighbours(run: RunFiles) -> str:
    """Return nearest neighbours across languages."""
    body = []
    for item in run.neighbours:
        code = escape(item["language"])
        found = "".join(
            f"<li>{escape(one['sentence'])} <small>{one['cosine']:.3f}</small></li>"
            for one in item["neighbours"]
        )
        query = f"<span lang='{code}' dir=auto>{escape(item['query'])}</span>"
        body.append([code, query, f"<ol>{found}</ol>"])
    if not body:
        return ""
    heads = ["language", "query", "nearest English sentences, cosine"]
    table = f"<div class=text>{_table(heads, body)}</div>"
    return section("Nearest neighbours across languages", table, "neighbours.json")


def timings(run: RunFiles) -> str:
    """Return the time of each part, against its budget where the recipe has one."""
    parts, budget = run.timings["parts"], run.recipe.get("budget", {})
    names = [*parts, *(name for name in budget if name not in parts)]
    body = []
    for name in names:
        cells = [_label(name), _minutes(parts.get(name))]
        if budget:
            limit = None if name not in budget else 60 * budget[name]
            over = limit is not None and parts.get(name, 0) > limit
            cells += [_minutes(limit), "<b>over</b>" if over else ""]
        body.append(cells)
    total = ["all", _minutes(sum(parts.values()))]
    if budget:
        total += [_minutes(60 * sum(budget.values())), ""]
    heads = ["part", "minutes"] + (["budget, minutes", ""] if budget else [])
    text = _table(heads, [*body, total])
    reused = run.timings.get("reused", {})
    if reused:
        text += (
            f"<p>{len(reused)} steps were taken from another run, where they took "
            f"{_minutes(sum(reused.values()))} minutes.</p>"
        )
    if run.timings.get("speed"):
        speeds = [
            [_label(name), f"{value:,.0f}"]
            for name, value in run.timings["speed"].items()
        ]
        text += _table(["model", "sentences a second"], speeds)
    return section("Time", text, "timings.json, recipe.toml")


def section(title: str, content: str, source: str) -> str:
    """Return a section that names the file its numbers come from."""
    return (
        f"<section><h2>{escape(title)}</h2>{content}"
        f"<p class=source>From {escape(source)}</p></section>\n"
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th scope=col>{head}</th>" for head in heads)
    body = "".join(
        "<tr><th scope=row>"
        + row[0]
        + "</th>"
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class=scroll tabindex=0><table><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _figure(caption: str, svg: str) -> str:
    text = escape(caption)
    return (
        f"<figure role=img aria-label='{text}'><figcaption>{text}</figcaption>"
        f"{svg}</figure>"
    )


def _cell(key: str, value: Any, kind: str | None, top: float | None) -> str:
    if value is None or isinstance(value, str | bool):
        return ""
    if key == "parameters":
        return f"{value:,}"
    if key.endswith("bytes"):
        return f"{value / 1e6:,.2f}"
    text = f"{value:.2f}"
    bold = top is not None and value == top and kind not in BIG
    return f"<b>{text}</b>" if bold else text


def _label(key: str) -> str:
    return escape(plain(key).replace("bytes", "MB"))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _minutes(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 60:.1f}"
