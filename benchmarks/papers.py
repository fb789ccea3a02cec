"""Every table and figure of the papers: what runs, what was measured, what it says.

A line for each. A claim is an order of two rows. It holds where the mean difference
over seeds has the claim's sign, does not where it has the other, and cannot be told
where the mean is at most 0.1 points or at most the range over seeds, a difference under
two points comes from fewer than three seeds, a row was not measured, or training did
not beat its own start. In brackets: the differences, x 100. The page is made from
`papers.toml`, the packaged recipes and the committed results:

    python benchmarks/papers.py
"""

import re
import statistics
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.files import read_json
from keras_msd.recipes import list_recipes
from keras_msd.recipes.schema.published import tables_named

HERE = Path(__file__).parent
CLEAR, SEEDS = 2.0, 3  # points that one seed may decide; seeds that any may
LEAST = 0.1  # points that no number of seeds may decide
SHOWN = 3  # recipes
HOLDS, NOT, UNKNOWN = "holds", "does not", "cannot be told"

Rows = dict[str, dict[str, float]]


class Result(NamedTuple):
    """Scores of a committed file, one set of rows a seed; none where it has none."""

    recipe: str
    file: str
    seeds: list[Rows]
    start: dict[str, Any] | None


def read_result(about: dict[str, Any]) -> Result:
    """Read the rows of each seed of a table; there may be no such file yet."""
    path = HERE / "results" / about["file"]
    tables = read_json(path)["tables"] if path.is_file() else {}
    seeds = tables.get(about["table"], {"seeds": {}})["seeds"].values()
    rows = [seed["rows"] for seed in seeds]
    return Result(about["recipe"], f"results/{about['file']}", rows, about.get("start"))


def differences(
    result: Result, score: str, above: str, below: str, share: float = 1.0
) -> list[float] | str:
    """Return `above - share * below` of each seed, or why there is none."""
    for name in (above, below):
        if any(score not in rows.get(name, {}) for rows in result.seeds):
            return f"no {score} of `{name}`"
    return [rows[above][score] - share * rows[below][score] for rows in result.seeds]


def not_learnt(result: Result, score: str) -> str | None:
    """Return why nothing can be told: no run, or none that beat its own start."""
    if not result.seeds:
        return f"`{result.recipe}`, as it is now, has not been run at lab size"
    if not result.start:
        return None
    above, below, gate = (result.start[key] for key in ("above", "below", "by"))
    where = result.start.get("score", score)
    for name, least in {score: LEAST, where: gate}.items():
        gained = differences(result, name, above, below)
        if isinstance(gained, str):
            return f"{gained}, where training began"
        if min(gained) < least:
            return f"`{above}` is {min(gained):+.1f} above its start, not {least:+.1f}"
    return None


def verdict(result: Result, score: str, claim: dict[str, Any]) -> tuple[str, str]:
    """Return what a result says of a claim, and why."""
    rows = {key: claim[key] for key in ("above", "below", "share") if key in claim}
    found = differences(result, score, **rows)
    if isinstance(found, str):
        return UNKNOWN, found
    low, high = min(found), max(found)
    if len(found) == 1:
        shown = f"{low:+.1f}, one seed"
    else:
        shown = f"{low:+.1f} to {high:+.1f}"
    mean = statistics.mean(found)
    few = len(found) < SEEDS and max(abs(low), abs(high)) < CLEAR
    if few or abs(mean) <= max(LEAST, high - low):
        return UNKNOWN, shown
    return (HOLDS if mean > 0 else NOT), shown


def told(result: Result, exhibit: dict[str, Any], results: dict[str, Result]) -> str:
    """Return what a result says of the claims of a table or figure.

    A claim may name another result, which then decides it.
    """
    score = exhibit["score"]
    if why := not_learnt(result, score):
        return f"**{UNKNOWN}**: {why}"
    said: dict[str, list[str]] = {}
    for claim in exhibit["claims"]:
        of = results.get(claim.get("result"), result)
        why = not_learnt(of, score)
        word, shown = (UNKNOWN, why) if why else verdict(of, score, claim)
        said.setdefault(word, []).append(f"{claim['says']} ({shown})")
    return "; ".join(
        f"**{word}**: {', '.join(said[word])}"
        for word in (HOLDS, NOT, UNKNOWN)
        if word in said
    )


def directions(exhibit: dict[str, Any], results: dict[str, Result]) -> str:
    """Return what the claims of a table or figure come to, in each of its results."""
    if why := exhibit.get("why"):
        return f"**{UNKNOWN}**: {why}"
    found = told(results[exhibit["result"]], exhibit, results)
    for says, name in exhibit.get("beside", {}).items():
        other = results[name]
        more = told(other, exhibit, results) if other.seeds else "not yet run"
        found += f". {says}: {more}"
    return found


def smoke_recipes(paper: str) -> dict[str, list[str]]:
    """Return the recipes of smoke scale by the tables and figures of a paper."""
    found: dict[str, list[str]] = {}
    for about in list_recipes():
        if about["paper"] != paper or "smoke" not in about["scales"]:
            continue
        for row in about["rows"].values() or [about]:
            for named in tables_named(row["table"]):
                kind = "figure" if named.startswith("figure") else "table"
                for number in re.findall(r"\d+", named):
                    names = found.setdefault(f"{kind} {number}", [])
                    names += [about["name"]] * (about["name"] not in names)
    return found


def page(about: dict[str, Any]) -> str:
    """Return the page: a table for each paper, a line for each table and figure."""
    results = {name: read_result(each) for name, each in about["results"].items()}
    lines = [
        "# Tables and figures of the papers",
        "",
        *(__doc__ or "").splitlines()[2:],
        "",
    ]
    for paper in about["papers"]:
        lines += [f"## {paper['title']}", ""]
        smoke = smoke_recipes(paper["title"])
        lines += ["| | about | runs at smoke | lab result | direction |"]
        lines += ["|---|---|---|---|---|"]
        for exhibit in paper["exhibits"]:
            recipes = smoke.get(exhibit.get("rows_of", exhibit["name"]), [])
            runs = ", ".join(f"`{name}`" for name in recipes[:SHOWN]) or "no"
            if len(recipes) > SHOWN:
                runs += f" and {len(recipes) - SHOWN} more"
            named = exhibit.get("result")
            file = "none"
            if named and results[named].seeds:
                file = f"[{named}]({results[named].file})"
            cells = [exhibit["name"], exhibit["about"], runs, file]
            lines += [f"| {' | '.join([*cells, directions(exhibit, results)])} |"]
        lines += [""]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    about = tomllib.loads((HERE / "papers.toml").read_text(encoding="utf-8"))
    (HERE / "papers.md").write_text(page(about), encoding="utf-8")


if __name__ == "__main__":
    main()
