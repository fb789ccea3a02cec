"""The reports of one run and of many: HTML pages that need no other file.

First the elements of a page, then the pages.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from keras_msd.checks import existing_folder
from keras_msd.evaluate.rows import asked_sets
from keras_msd.io.files import atomic_path, dotted, read_json
from keras_msd.recipes.listing import describe
from keras_msd.recipes.load import load_recipe, recipe_names
from keras_msd.recipes.settings import Recipe
from keras_msd.report import runs
from keras_msd.report.charts import colours_of, loss_curves, sizes, stage_scores
from keras_msd.report.runs import RunFiles, ScoreRow, number, plain
from keras_msd.stages.table import STAGES

OWN = "A recipe of our own, no row of a paper"
TITLE = "All runs"
ABOUT = ("recipe", "scale")  # sections that change no result
Line = tuple[str, str, str]
# Its policy makes the browser refuse anything that is not in this file.
PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


class Html(str):
    """Text that is HTML already, so that it is not escaped."""


def html(text: str) -> Html:
    """Return text as HTML: escaped, unless it is HTML."""
    return text if isinstance(text, Html) else Html(escape(text))


def heading(text: str, level: int = 2) -> Html:
    """Return a heading."""
    return Html(f"<h{level}>{html(text)}</h{level}>\n")


def paragraph(text: str) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{html(text)}</p>\n")


def items(texts: Iterable[str], kind: str = "ul") -> Html:
    """Return a list, by default without numbers."""
    return Html(f"<{kind}>{''.join(f'<li>{html(it)}</li>' for it in texts)}</{kind}>\n")


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False
) -> Html:
    """Return a table whose first column names the rows.

    Args:
        heads: Names of the columns.
        rows: The cells of each row.
        words: Whether all columns hold words, not numbers.
    """
    top = "".join(f"<th scope=col>{html(head)}</th>" for head in heads)
    body = "".join(
        f"<tr><th scope=row>{html(first)}</th>"
        + "".join(f"<td>{html(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    kind = "scroll text" if words else "scroll"
    return Html(
        f"<div class='{kind}' tabindex=0><table><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>\n"
    )


def picture(caption: str, svg: str) -> Html:
    """Return a plot under its caption."""
    text = escape(caption)
    return Html(
        f"<figure role=img aria-label='{text}'><figcaption>{text}</figcaption>"
        f"{svg}</figure>\n"
    )


def grid(pictures: Iterable[str]) -> Html:
    """Return pictures side by side where there is room."""
    return Html(f"<div class=grid>{''.join(pictures)}</div>\n")


def folded(title: str, parts: Iterable[str]) -> Html:
    """Return parts behind their title; nothing without any."""
    body = "".join(parts)
    if not body:
        return Html("")
    summary = f"<summary><h2>{html(title)}</h2></summary>"
    return Html(f"<details>{summary}{body}</details>\n")


def write_page(path: Path, title: str, parts: Iterable[str]) -> Path:
    """Write a page that a browser lets fetch nothing, complete or not at all."""
    text = PAGE.substitute(title=escape(title), body="".join(parts))
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def write_report(run_folder: str | Path) -> Path:
    """Write `report.html` into the folder of a finished run.

    The page begins with a verdict, then the scores, charts, and examples; settings are
    folded at the end. Every number comes from `recipe.toml`, `scores.json`,
    `timings.json`, `stages/<stage>/history.json`, `stages/pairs/done.json` or
    `neighbours.json` of that folder. The same files give the same bytes.

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
    run = runs.read_run(folder)
    text = (folder / "recipe.toml").read_text(encoding="utf-8")
    about, rows = run.recipe.get("recipe", {}), run.scores["rows"]
    title = about.get("title") or run.scores["recipe"]
    lead = f"Recipe {run.scores['recipe']}, scale {run.scores['scale']}."
    lead += f" {_reproduces(about)}."
    if sets := [asked.title for asked in asked_sets(run.recipe)]:
        lead += f" Evaluated on {', '.join(sets)}."
    if part := run.scores.get("part"):
        lead += f" Scores are of the half `{part}` of each set."
    return write_page(
        folder / "report.html",
        title,
        [
            heading(title, 1),
            items(runs.verdict(rows)),
            paragraph(lead),
            heading("Scores"),
            *_scores(rows),
            *_charts(rows),
            *sections(run),
            folded("What differs from the paper", _differences(run)),
            folded("Settings", [Html(f"<pre>{escape(text)}</pre>")]),
        ],
    )


def sections(run: RunFiles) -> list[Html]:
    """Return what any report says of a training: examples, losses, rows, time."""
    return [
        folded("Nearest neighbours across languages", _neighbours(run)),
        folded("Losses", _losses(run)),
        folded("Rows that were skipped", _dirty_rows(run)),
        folded("Time", _timings(run)),
    ]


def _reproduces(about: dict[str, Any]) -> str:
    """Return which row of which paper a recipe is."""
    words = {"citation": "", "table": "table ", "row": "row "}
    named = [f"{word}{about[key]}" for key, word in words.items() if about.get(key)]
    return ", ".join(named) if about.get("citation") else OWN


def _scores(rows: list[ScoreRow]) -> Iterator[str]:
    # Scores first.
    keys = sorted(runs.columns(rows), key=runs.SIZES.__contains__)
    top = {key: runs.best(rows, key) for key in keys}
    heads = ["model", *(plain(key).replace("bytes", "MB") for key in keys)]
    yield table(
        heads,
        (
            [plain(row["name"]), *(_cell(row, it, top[it]) for it in keys)]
            for row in rows
        ),
    )
    yield paragraph("Bold: best score, teacher and assistant aside. 1 MB is 10⁶ bytes.")


def _cell(row: ScoreRow, key: str, top: float | None) -> str:
    value = row.get(key)
    if value is None or isinstance(value, str | bool):
        return ""
    if key == "parameters":
        return f"{value:,}"
    if key.endswith("bytes"):
        return f"{value / 1e6:,.2f}"
    bold = value == top and row.get("kind") not in runs.BIG
    return Html(f"<b>{value:.2f}</b>") if bold else f"{value:.2f}"


def _charts(rows: list[ScoreRow]) -> Iterator[str]:
    colours, students, pictures = colours_of(rows), runs.by_student(rows), []
    first = runs.primary_score(rows) or "retrieval"
    for key in dict.fromkeys((first, "retrieval")):
        if finished := runs.having(runs.final_rows(rows), key, "bytes"):
            svg = sizes(finished, key, colours)
            pictures.append(picture(f"{plain(key)} against size", svg))
        if any(len(runs.having(steps, key)) > 1 for steps in students.values()):
            svg = stage_scores(rows, key, colours)
            pictures.append(picture(f"{plain(key)} after each stage", svg))
    if pictures:
        yield heading("Quality")
        yield grid(pictures)


def _losses(run: RunFiles) -> Iterator[str]:
    pictures, notes = [], []
    for name, history in run.histories.items():
        if history["steps"]:
            caption = f"{plain(name)} ({name}/history.json)"
            pictures.append(picture(caption, loss_curves(history)))
        if found := history.get("collapsed"):
            notes.append(
                f"Embeddings of {plain(name)} collapsed: a mean cosine of "
                f"{found['mean_cosine']:.3f} between different sentences after "
                f"{found['updates']} updates."
            )
    if pictures or notes:
        yield grid(pictures)
        yield from map(paragraph, notes)


def _neighbours(run: RunFiles) -> Iterator[str]:
    body = []
    for item in run.neighbours:
        code = escape(item["language"])
        nearest = (
            Html(f"{escape(it['sentence'])} <small>{it['cosine']:.3f}</small>")
            for it in item["neighbours"]
        )
        query = f"<span lang='{code}' dir=auto>{escape(item['query'])}</span>"
        body.append([item["language"], Html(query), items(nearest, "ol")])
    if body:
        heads = ["language", "query", "nearest sentences held out, cosine"]
        yield table(heads, body, words=True)


def _dirty_rows(run: RunFiles) -> Iterator[str]:
    body = []
    for count in run.counts:
        if dirty := count.get("dirty"):
            rows = f"{dirty:,} of {count['read'] + dirty:,}"
            body.append([count["name"], rows, items(count["dirty_rows"], "ol")])
    if body:
        heads = ["file", "rows", "each kind of fault, the most frequent first"]
        yield table(heads, body, words=True)


def _timings(run: RunFiles) -> Iterator[str]:
    """Yield the time of each part."""
    parts = run.timings["parts"]
    rows = (parts | {"all": sum(parts.values())}).items()
    body = ([plain(name), _minutes(seconds)] for name, seconds in rows)
    yield table(["part", "minutes"], body)
    if reused := run.timings.get("reused", {}):
        yield paragraph(
            f"{len(reused)} steps were taken from another run, where they took "
            f"{_minutes(sum(reused.values()))} minutes."
        )
    if speed := run.timings.get("speed"):
        rows = ([plain(name), f"{value:,.0f}"] for name, value in speed.items())
        yield table(["model", "sentences a second"], rows)


def _differences(run: RunFiles) -> Iterator[str]:
    found = differences(run.recipe)
    if found is None:
        yield paragraph("The recipe has no paper scale: all settings are our own.")
        return
    if found.changed:
        heads = ["setting", "this run", "paper scale"]
        yield table(heads, found.changed, words=True)
    elif not found.ours:
        yield paragraph("As published.")
    if found.ours:
        heads = ["setting", "value at the paper scale", "not the paper's: why"]
        yield table(heads, found.ours, words=True)


class Differences(NamedTuple):
    """What is not as in the paper.

    Attributes:
        changed: Dotted key, value in this recipe, value in the recipe of that name at
            the `paper` scale, for each setting that differs.
        ours: Dotted key, value, reason: settings that differ from the paper at that
            scale too, or that the paper does not print. Settings that no stage reads
            are left out.
    """

    changed: list[Line]
    ours: list[Line]


def differences(recipe: dict[str, Any]) -> Differences | None:
    """Return how a recipe differs from its paper.

    Args:
        recipe: The content of a run's recipe.toml.

    Returns:
        None where the packaged recipe of that name has no paper scale, or there is
        none.

    Example:
        >>> from keras_msd.report.reports import differences
        >>> recipe = msd.recipes.load_recipe("msd_xlmr_mean", "paper").settings()
        >>> differences(recipe).ours[0][:2]
        ('evaluate.sets', 'sts2017-extended, tatoeba')
    """
    name = recipe.get("recipe", {}).get("name", "")
    if name not in recipe_names() or "paper" not in describe(name).scales:
        return None
    paper = load_recipe(name, "paper")
    here, there = _flat(recipe), _flat(paper.settings())
    changed = [
        (key, here.get(key, "-"), there.get(key, "-"))
        for key in dict.fromkeys([*here, *there])
        if here.get(key) != there.get(key)
    ]
    ours = []
    for key, why in paper.recipe.ours.items():
        value: Any = paper.settings()
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None and _is_read(paper, key):
            shown = in_words(value)
            ours.append((key, shown, why.replace("{value}", shown)))
    return Differences(changed, ours)


def in_words(value: Any) -> str:
    """Return a value of a recipe without the signs of TOML."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {in_words(part)}" for key, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _flat(settings: dict[str, Any]) -> dict[str, str]:
    """Return the values of settings in words by dotted key."""
    read = {key: it for key, it in settings.items() if key not in ABOUT}
    return {key: in_words(value) for key, value in dotted(read).items()}


def _is_read(recipe: Recipe, key: str) -> bool:
    """Tell whether something that a recipe does depends on a setting."""
    section, *parts = key.split(".")
    ran = {name for name, _ in recipe.stages_in_use()}
    reduces = bool(recipe.reduction.widths)
    pairs = reduces or any(STAGES[name].rows == "pairs" for name in ran)
    if section == "stages" and parts[-1] == "skip":
        return pairs and recipe.stages[parts[0]].skip
    if section == "stages":
        unused = recipe.stages[parts[0]].unused()
        return parts[0] in ran and parts[1] not in unused
    if section == "data" and parts != ["max_length"]:
        return pairs
    if section == "student":
        return bool(ran and recipe.student.each())
    if section == "reduction":
        return reduces
    return bool(ran) or reduces or section == "evaluate"


def _minutes(seconds: float) -> str:
    return number(seconds / 60)


def write_report_of_all(out_dir: str | Path) -> Path:
    """Write `report.html` over the runs in a folder.

    It has the verdict of each run with a link to its own report, and the recipes that
    failed.

    Args:
        out_dir: Parent of the runs' folders, as `run_all` leaves it.

    Returns:
        The path of `report.html`.

    Raises:
        InputError: The folder is missing, or a file of a run is broken.

    Example:
        >>> results = msd.recipes.run_all(["xkd_labb"], out_dir="runs")
        >>> page = msd.report.write_report_of_all("runs").read_text()
        >>> "There is no recipe `xkd_labb`. Did you mean" in page
        True
    """
    folder = existing_folder(out_dir, "folder of runs")
    return write_page(folder / "report.html", TITLE, _parts_of_all(folder))


def _parts_of_all(folder: Path) -> Iterator[str]:
    folders = sorted(path.parent for path in folder.glob("*/scores.json"))
    finished = {of.name: runs.read_run(of) for of in folders}
    scales = sorted({run.scores["scale"] for run in finished.values()})
    yield heading(TITLE, 1)
    yield paragraph(
        f"{len(finished)} finished runs, scale {', '.join(scales) or 'none'}. Scores "
        "are x100."
    )
    results = folder / "results.json"
    listed = read_json(results) if results.is_file() else []
    failed = [[it["recipe"], it["error"]] for it in listed if "error" in it]
    if failed:
        yield heading("Recipes that failed")
        yield table(["recipe", "error (results.json)"], failed, words=True)
    if finished:
        links = (f"<a href='{it}/report.html'>{it}</a>" for it in map(escape, finished))
        said = (runs.verdict(run.scores["rows"])[0] for run in finished.values())
        verdicts = zip(map(Html, links), said, strict=True)
        yield heading("What each came to")
        yield table(["run", "verdict (scores.json)"], verdicts, words=True)
