"""The papers' tables and figures beside what was measured here: `papers.md`.

A claim says that one row of a table is above another. The rule for it:

    1. "Above" means: the mean difference over seeds is more than 0.1 points and more
       than the range of the seeds, and with fewer than three seeds at least two points.
    2. Both rows must be above their own start, which is the score of what their
       training began from. Rows that were not trained here need no start.
    3. Both rows must be stable: after each of their stages, the seeds' scores across
       languages must lie within two points. At another learning rate, an unstable row
       may end elsewhere. A single seed does not show whether a row is stable.
    4. The lower row must have stopped rising. A row still rises if the last tenth of
       the steps of its last stage added points across languages in every seed, and
       more than 0.1 in the mean. With more steps, it may pass the other row.
    5. Under 1 to 4 a claim holds if its first row is above the second, and does not
       if the second is above the first. Otherwise, or where a row or its start was not
       measured, it cannot be told.

The page is made from `papers.toml`, the papers' numbers in `published/` and
the committed results:

    python experiments/papers.py
"""

import re
import statistics
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.io.files import read_json

HERE = Path(__file__).parent
PUBLISHED = HERE / "published"
LAB = "ablations.json"
LEAST, CLEAR, SEEDS = 0.1, 2.0, 3  # points, points that fewer seeds may decide, seeds
VERDICTS = HOLDS, NOT, UNKNOWN = "holds", "does not hold", "cannot be told"
UNMEASURED, UNRECORDED, BELOW, UNSTABLE, RISING = (
    "was not measured",
    "has no recorded start",
    "is not above its start",
    "is unstable between seeds",
    "is below and still rises",
)
CLOSE = "too close"
STAGES = {  # those of a student, in the order in which they run
    "align_embedding": "after stage 2",
    "teach_student": "after stage 3",
    "contrastive_learning": "after stage 4",
    "teach_thin_deep": "at the end",
}
PLURAL = {HOLDS: "hold", NOT: "do not hold"}
ONE = ", one seed"
STUDENT, ACROSS, END = "student", "cross_lingual", "at the end"
UNSETTLED = "exhibit", "row", "seeds apart", "rise in the last tenth"
COLUMNS = {"retrieval": "tatoeba"}  # our names of scores, those of papers


class Row(NamedTuple):
    """What a result has of a row: a score for each seed, and its start.

    `start` is None where it was not measured, and `trained` false for a row that no
    training of ours has changed. `ends` has by stage the seeds' scores across languages
    after it, `rises` what the last tenth of the last stage added to them.
    """

    scores: list[float]
    start: float | None
    trained: bool = True
    ends: Mapping[str, Sequence[float]] = {}
    rises: Sequence[float] = ()

    def apart(self) -> tuple[float, str]:
        """Return the largest distance between seeds after a stage, and the stage."""
        distances = [(max(it) - min(it), stage) for stage, it in self.ends.items()]
        return max(distances, default=(0.0, ""))

    def unstable(self) -> bool:
        """Return whether seeds are too far apart: rule 3."""
        return self.trained and self.apart()[0] > CLEAR

    def rising(self) -> bool:
        """Return whether the row still rises: rule 4."""
        return bool(self.rises) and (
            min(self.rises) > 0 and statistics.mean(self.rises) > LEAST
        )

    def problem(self) -> str:
        """Return why no claim may stand on the row, "" if one may."""
        if not self.scores:
            return UNMEASURED
        if not self.trained:
            return ""
        if self.start is None:
            return UNRECORDED
        gains = [score - self.start for score in self.scores]
        if above(gains) <= 0:
            return BELOW
        return UNSTABLE if self.unstable() else ""


def above(differences: list[float]) -> int:
    """Return 1 or -1 for the sign of differences that decide, else 0: rule 1."""
    mean = statistics.mean(differences)
    width = max(differences) - min(differences)
    if abs(mean) <= max(LEAST, width):
        return 0
    if len(differences) < SEEDS and abs(mean) < CLEAR:
        return 0
    return 1 if mean > 0 else -1


def shown(differences: list[float]) -> str:
    """Return differences as their range."""
    low, high = f"{min(differences):+.1f}", f"{max(differences):+.1f}"
    return low if low == high else f"{low} to {high}"


def verdict(upper: Row, lower: Row, share: float = 1.0) -> tuple[str, str]:
    """Return what becomes of a claim, and why where it cannot be told.

    Args:
        upper: The row that is said to be above.
        lower: The other one.
        share: The claim is that `upper` is above this share of `lower`.
    """
    rows = ("first", upper), ("second", lower)
    problems = [f"{which} row {row.problem()}" for which, row in rows if row.problem()]
    if problems:
        below = [problem for problem in problems if problem.endswith(BELOW)]
        return UNKNOWN, (below or problems)[0]
    sign = above(differences(upper, lower, share))
    if sign == 0:
        return UNKNOWN, CLOSE
    which, behind = rows[1] if sign > 0 else rows[0]
    if behind.rising():
        return UNKNOWN, f"{which} row {RISING}"
    return (HOLDS, "") if sign > 0 else (NOT, "")


def differences(upper: Row, lower: Row, share: float = 1.0) -> list[float]:
    """Return by seed how far a row is above a share of another one."""
    pairs = zip(upper.scores, lower.scores, strict=True)
    return [high - share * low for high, low in pairs]


@cache
def results(file: str) -> dict[str, Any]:
    """Return the tables of a committed result, none where there is no such file."""
    path = HERE / "results" / file
    return read_json(path)["tables"] if path.is_file() else {}


def row_of(part: Mapping[str, Any], model: str, score: str) -> Row:
    """Return what a part's result has of a model.

    A row from another table, of `row_tables`, is that of the seeds of the part's table.
    """
    tables, own = results(part.get("file", LAB)), part.get("table", "")
    table = tables.get(part.get("row_tables", {}).get(model, own), {})
    found = table.get("seeds", {})
    runs = [found[it] for it in tables.get(own, {}).get("seeds", ()) if it in found]
    seeds = [run["rows"] for run in runs]
    last = part.get("after", {}).get(model)
    name = STUDENT if last else model
    if last and score != ACROSS:
        name, last = f"{STUDENT}, {last}", None  # has a row of its own
    ends, rises = ends_of(runs, name, last)
    scores = [rows[name][score] for rows in seeds if score in rows.get(name, {})]
    if last:
        scores = ends.get(last, [])
    start = table.get("starts", {}).get(name, {}).get(score)
    if start is None and (begun := part.get("start")) and seeds:
        start = seeds[0].get(begun, {}).get(score)
    trained = model not in part.get("fixed", ())
    scores = scores if len(scores) == len(seeds) else []
    return Row(scores, start, trained, ends, rises)


def ends_of(
    runs: Sequence[Mapping[str, Any]], model: str, last: str | None
) -> tuple[dict[str, list[float]], list[float]]:
    """Return by stage the scores across languages after it, and the last rises.

    Args:
        runs: What a result has of each seed.
        model: Name of the row.
        last: The stage that the row ends with; None for the last that it has.
    """
    if not model.startswith(STUDENT):
        return {}, []
    suffix, ends, rises = model.removeprefix(STUDENT), {}, []
    for stage in STAGES:
        step = f"{stage}{suffix}"
        if all(step in run.get("last_tenth", {}) for run in runs):
            rises = [run["last_tenth"][step] for run in runs]
        found = [run["ends"][step] for run in runs if step in run.get("ends", {})]
        if found and len(found) == len(runs):
            ends[stage] = found
        if stage == last:
            return ends, rises
    final = [run["rows"].get(model, {}).get(ACROSS) for run in runs]
    if ends and final != [*ends.values()][-1]:
        rises = []  # those of the last stage were not recorded
    if final and None not in final:
        ends[END] = final
    return ends, rises


@cache
def published(citation: str) -> dict[str, Any]:
    """Return a paper's file of published numbers; empty for a paper without one."""
    path = PUBLISHED / f"{citation}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def printed(citation: str, part: Mapping[str, Any], model: str) -> float | None:
    """Return the score that a paper prints for a row of a part."""
    about, score = published(citation), part["score"]
    row = part.get("printed", {}).get(model, part["rows"][model])
    for block in about.get("tables", ()):
        columns = block.get("columns", about.get("columns"))
        key = COLUMNS.get(score, score)
        if row in block["rows"] and key in columns:
            return block["rows"][row][columns.index(key)]
    return None


class Claim(NamedTuple):
    """A claim of a paper, judged; `why` says what keeps it from being told."""

    says: str
    verdict: str
    printed: str
    measured: str
    why: str


def claim_in(text: str) -> tuple[str, str, float]:
    """Return the rows and the share of a claim: `a > b`, or `a > 0.9 b`."""
    upper, lower = text.split(" > ")
    share, _, name = lower.partition(" ")
    return (upper, name, float(share)) if lower[0].isdigit() else (upper, lower, 1.0)


def claims_of(citation: str, part: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims of a part of an exhibit with their verdicts."""
    score, names = part["score"], part["rows"]
    for text in part["claims"]:
        upper, lower, share = claim_in(text)
        high, low = (row_of(part, name, score) for name in (upper, lower))
        absent = [part.get("absent", {}).get(name) for name in (upper, lower)]
        if why := next(filter(None, absent), part.get("why")):
            word = UNKNOWN
        else:
            word, why = verdict(high, low, share)
        says = f"{names[upper]} > {names[lower]}"
        if share != 1.0:
            says = f"{names[upper]}: keeps {100 * share:g} % of the {names[lower]}"
        paper = ours = ""
        first, second = (printed(citation, part, it) for it in (upper, lower))
        if first is not None and second is not None:
            paper = gap_in_words([first], [second], share).removesuffix(ONE)
        if high.scores and low.scores:
            ours = gap_in_words(high.scores, low.scores, share)
        yield Claim(says, word, paper, ours, why)


def gap_in_words(high: Sequence[float], low: Sequence[float], share: float) -> str:
    """Return the differences of two rows, or for a share how much the first keeps."""
    pairs = list(zip(high, low, strict=True))
    if share != 1.0:
        return f"{statistics.mean(100 * a / b for a, b in pairs):.1f} %"
    return shown([a - b for a, b in pairs]) + (ONE if len(pairs) == 1 else "")


def parts_of(exhibit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of an exhibit with what they share."""
    shared = {k: v for k, v in exhibit.items() if k not in ("parts", "notes", "about")}
    for part in exhibit.get("parts", ()):
        yield {"claims": [], **shared, **part}


def summary(claims: Sequence[Claim]) -> str:
    """Return one line for the verdicts of an exhibit."""
    if not claims:
        return "No ordering to check."
    counts = [sum(it.verdict == word for it in claims) for word in VERDICTS]
    words = [
        f"{count} {word if count == 1 or word == UNKNOWN else PLURAL[word]}"
        for count, word in zip(counts, VERDICTS, strict=True)
        if count
    ]
    return f"Of {len(claims)} orderings {', '.join(words)}."


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> list[str]:
    """Return the lines of a Markdown table; `sides` has l or r for each column."""
    marks = [{"l": "---", "r": "---:"}[side] for side in sides]
    return [f"| {' | '.join(row)} |" for row in (heads, marks, *rows)] + [""]


def rows_table(citation: str, part: Mapping[str, Any]) -> list[str]:
    """Return the table of a part: row, start, ours with spread, published."""
    score, lines = part["score"], []
    for model, name in part["rows"].items():
        row, number = row_of(part, model, score), printed(citation, part, model)
        ours, start = "", ""
        if row.scores:
            half = (max(row.scores) - min(row.scores)) / 2
            spread = f" ± {half:.1f}" if len(row.scores) > 1 else ""
            ours = f"{statistics.mean(row.scores):.1f}{spread}"
            start = "not recorded" if row.start is None else f"{row.start:.1f}"
            if not row.trained:
                start = "not trained here"
        lines.append([name, start, ours, "" if number is None else f"{number:.1f}"])
    if not any(line[2] for line in lines):
        return []
    return table(["row", "start", "ours", "published"], lines, "lrrr")


def in_code(names: Iterable[str]) -> str:
    """Return names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names)


def exhibit_lines(paper: Mapping[str, Any], exhibit: Mapping[str, Any]) -> list[str]:
    """Return the section of a table or figure."""
    found = [
        (part, list(claims_of(paper["citation"], part))) for part in parts_of(exhibit)
    ]
    every = [claim for _, claims in found for claim in claims]
    why = exhibit.get("why", exhibit.get("open", ""))
    lines = [f"### {title_of(paper, exhibit)}", ""]
    lines += [f"**{summary(every)}**" + (f" {why}." if why else ""), ""]
    if figure := exhibit.get("figure"):
        lines += [f"![{exhibit['about']}](figures/{figure}.svg)", ""]
    for part, claims in found:
        lines += [f"{part['title']}:", ""] if part.get("title") else []
        lines += rows_table(paper["citation"], part)
        heads = ["the paper's ordering", "verdict", "paper", "ours", "why"]
        lines += table(heads, claims, "llrrl") if claims else []
    notes = [f"- {note}" for note in exhibit.get("notes", ())]
    named: dict[str, dict[str, None]] = {}
    for part, _ in found:
        file, name = part.get("file", LAB), part.get("table", "")
        if name in results(file):
            named.setdefault(file, {})[name] = None
    for file, tables in named.items():
        notes.append(f"- Tables of `results/{file}`: {in_code(tables)}.")
    if recipes := exhibit.get("recipes"):
        notes.append(f"- Recipes: {in_code(recipes)}.")
    if notes:
        fold = "<details markdown=1><summary>Settings and limits</summary>"
        lines += [fold, "", *notes, "", "</details>", ""]
    return lines


def title_of(paper: Mapping[str, Any], exhibit: Mapping[str, Any]) -> str:
    """Return the heading of an exhibit."""
    kinds = [name.split()[0] for name in exhibit["names"]]
    numbers = " and ".join(name.split()[1] for name in exhibit["names"])
    kind = kinds[0] + ("s" if len(kinds) > 1 else "")
    return f"{paper['short']}, {kind} {numbers}: {exhibit['about']}"


def slug(title: str) -> str:
    """Return the anchor that GitHub and the site give a heading."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def reasons(claims: Sequence[Claim]) -> str:
    """Return how many claims cannot be told for which reason."""
    unknown = [claim.why for claim in claims if claim.verdict == UNKNOWN]
    counts = {
        "a row ended no higher than it began": BELOW,
        "a row is unstable between seeds": UNSTABLE,
        "the lower row still rises": RISING,
        "a start was not recorded": UNRECORDED,
        "the rows are too close": CLOSE,
    }
    found = {
        words: sum(why.endswith(it) for why in unknown) for words, it in counts.items()
    }
    found["a row was not measured here"] = len(unknown) - sum(found.values())
    listed = ", ".join(f"in {count} {words}" for words, count in found.items() if count)
    return f"{summary(claims)} Of those that cannot be told, {listed}."


def unsettled(papers: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows that are unstable or still rise: exhibit, row, both in words."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for paper in papers:
        for exhibit in paper["exhibits"]:
            for part in parts_of(exhibit):
                for model, name in part["rows"].items():
                    row = row_of(part, model, part["score"])
                    place = part.get("file", LAB), part.get("table", ""), model
                    if not (row.unstable() or row.rising()) or place in found:
                        continue
                    distance, stage = row.apart()
                    apart = f"{distance:.1f} {STAGES.get(stage, stage)}"
                    names = f"{paper['short']}, {' and '.join(exhibit['names'])}"
                    rise = statistics.mean(row.rises) if row.rising() else None
                    found[place] = [
                        *(names, name.partition(" (−")[0]),  # sizes stand below
                        apart if row.unstable() else "",
                        "" if rise is None else f"{rise:+.2f}",
                    ]
    return list(found.values())


def page(about: Mapping[str, Any]) -> str:
    """Return the page."""
    top, body, every = [], [], []
    for paper in about["papers"]:
        body += [f"## {paper['title']}", ""]
        if notes := paper.get("notes"):
            body += [notes.strip(), ""]
        for exhibit in paper["exhibits"]:
            claims = [
                claim
                for part in parts_of(exhibit)
                for claim in claims_of(paper["citation"], part)
            ]
            counts = [sum(it.verdict == word for it in claims) for word in VERDICTS]
            title = title_of(paper, exhibit)
            every += claims
            if claims:
                cells = [str(count or "") for count in counts]
                top.append([f"[{title}](#{slug(title)})", *cells])
            body += exhibit_lines(paper, exhibit)
    rule = (__doc__ or "").split("\n\n")
    lines = [
        *(
            "# The papers' tables, measured here",
            "",
            about["answer"].strip(),
            "",
            reasons(every),
            "",
        ),
        *table(["exhibit", *VERDICTS], top, "lrrr"),
        *("## The rule", "", rule[1].strip(), "", *_unindented(rule[2]), ""),
        *("Rows that are unstable or still rise, in points across languages:", ""),
        *table(UNSETTLED, unsettled(about["papers"]), "llrr"),
        *(about["reading"].strip(), "", "    python experiments/papers.py", "", *body),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _unindented(text: str) -> list[str]:
    return [line[4:] for line in text.split("\n")]


def load() -> dict[str, Any]:
    """Return `papers.toml`."""
    return tomllib.loads((HERE / "papers.toml").read_text(encoding="utf-8"))


def main() -> None:
    """Write the page."""
    (HERE / "papers.md").write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main()
