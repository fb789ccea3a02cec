"""Score the encoders of a `distil` run, choose one, and write what the scores show."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

from keras_msd.comparison import Prompted, Questions
from keras_msd.data.corpora import LANGUAGES, example_pairs, example_similarity
from keras_msd.data.pair import ENGLISH
from keras_msd.distillation.plan import Plan
from keras_msd.evaluate.measures import encoded, mean_score, percent
from keras_msd.evaluate.parts import CHOOSE, REPORT, half_of
from keras_msd.evaluate.similarity import sts_tracks
from keras_msd.evaluate.translations import TEXT, retrieval_languages
from keras_msd.report.reports import heading, items, sections, table, write_page
from keras_msd.report.runs import read_run

COLUMNS = {
    "precision": "P@1",
    "mrr": "MRR",
    "margin": "margin",
}
GENERAL_ROWS = 300  # graded general pairs per language
Held = Mapping[str, Sequence[tuple[str, str]]]  # pairs by code


def questions(held: Held, part: str) -> Questions:
    """Return one half of the held-out pairs, ready to be scored."""
    return Questions(
        (source, target, code)
        for code, pairs in held.items()
        for source, target in pairs
        if half_of(source) == part
    )


def choose(
    encoders: Mapping[str, Any],
    held: Held,
    languages: Collection[str],
    guard: float | None,
) -> tuple[str, dict[str, Any]]:
    """Return the name of the best encoder on the tuning half, and all scores there.

    The mean reciprocal rank decides, and where it is equal the margin: precision alone
    is often 100 before training.

    Args:
        encoders: The first is the one before training.
        held: The held-out pairs.
        languages: Codes of the languages whose general text counts.
        guard: Most points that a general score may lose against the first; None for any
            loss.
    """
    asked, scores = questions(held, CHOOSE), {}
    for name, encoder in encoders.items():
        scores[name] = asked.score(Prompted(encoder, None), 0)
        scores[name]["general"] = general_scores(encoder, languages, CHOOSE)
    first = next(iter(scores.values()))["general"]
    allowed = [
        name
        for name, row in scores.items()
        if guard is None
        or all(first[key] - row["general"][key] <= guard for key in first)
    ]
    best = max(allowed, key=lambda name: (scores[name]["mrr"], scores[name]["margin"]))
    return best, scores


def score(
    encoders: Mapping[str, Any], held: Held, languages: Collection[str]
) -> list[dict[str, Any]]:
    """Return the scores of encoders on the reporting half, the result's first.

    Returns:
        As in `encoders` of `compare`, without sizes and times, and:

        - `general`: see `general_scores`;
        - `gain`: for all but the first, how much higher the first's precision is, and
          its 95 % bootstrap interval, from the same draws of source sentences.
    """
    asked, rows, hits = questions(held, REPORT), [], []
    for name, encoder in encoders.items():
        vectors = encoded(Prompted(encoder, None).encode, asked.texts)
        margins, ranks = asked.measure(vectors)
        hits.append((margins > 0).mean(axis=0))
        row = {"name": name, **asked.summary(margins, ranks, 0)}
        row["general"] = general_scores(encoder, languages)
        if len(hits) > 1:
            difference = hits[0] - hits[-1]
            row["gain"] = [percent(difference.mean()), *asked.interval(difference, 0)]
        rows.append(row)
    return rows


@cache
def _general(part: str) -> dict[str, list[Any]]:
    """Return one half of the graded general pairs, by language."""
    rows = example_similarity(count=GENERAL_ROWS)
    # Drop rows whose two sentences are in different halves.
    kept = [half_of(one) == half_of(two) == part for _, one, two in rows[ENGLISH]]
    return {code: list(compress(graded, kept)) for code, graded in rows.items()}


def general_scores(
    encoder: Any, languages: Collection[str], part: str = REPORT
) -> dict[str, float]:
    """Score an encoder on general sentences, which come with the library.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        languages: Codes; those without general sentences are left out.
        part: "choose" for the tuning half, "report" for the reporting half.

    Returns:
        Means over languages x 100; empty if there are sentences in none of them.
        `similarity`: Spearman correlation between the cosines within each language and
        those that all-MiniLM-L6-v2 gives to the English sentences. `translations`:
        precision at 1 of translations to and from English.
    """
    codes = [code for code in LANGUAGES if code in languages]
    rows = {code: it for code, it in _general(part).items() if code in languages}
    found: dict[str, float] = {}
    if rows:
        found["similarity"] = mean_score(sts_tracks(encoder, rows).values())
    if codes and ENGLISH in languages:
        pairs: dict[str, list[tuple[str, str]]] = {}
        for pair in example_pairs(codes, "dev"):
            pairs.setdefault(pair.language, []).append((pair.source, pair.target))
        scores = retrieval_languages(encoder, pairs, part, TEXT)
        found["translations"] = scores["precision"]
    return found


def for_card(row: Mapping[str, Any], pairs: int) -> dict[str, float]:
    """Return the scores of one row of `score`, with names for a card.

    Args:
        row: The row.
        pairs: Number of held-out pairs that it is scored on.
    """
    general = {
        "similarity": "Spearman x 100 with all-MiniLM-L6-v2, general sentences",
        "translations": "P@1 x 100, translations of general sentences",
    }
    of = f"{pairs} held-out pairs"
    scores = {f"P@1 x 100, {of}": row["precision"], f"MRR x 100, {of}": row["mrr"]}
    return scores | {general[name]: score for name, score in row["general"].items()}


def words(rows: Sequence[Mapping[str, Any]], pairs: int) -> list[str]:
    """Return sentences that say what the rows of `score` show.

    Args:
        rows: The result's row first.
        pairs: Number of held-out pairs that they are scored on.
    """
    first = rows[0]
    found = (
        f"On {pairs} held-out pairs of yours, {first['name']} finds "
        f"{first['precision']:.1f} % of the translations"
    )
    low, high = first["interval"]
    if first["precision"] == 100:
        # A bootstrap of hits alone has no width; this is Clopper and Pearson's bound.
        wrong = 100 * (1 - 0.05 ** (1 / pairs))
        said = [
            f"{found}. With so few pairs, up to {wrong:.1f} % of further ones could be "
            "wrong (95 % confidence)."
        ]
    else:
        said = [f"{found} (95 % interval {low:.1f} to {high:.1f})."]
    if all(row["precision"] == 100 for row in rows):
        return [
            *said,
            "All encoders find every translation: these pairs cannot tell them apart, "
            "only the margin can. Add harder pairs, such as similar sentences.",
        ]
    for row in rows[1:]:
        gain, low, high = row["gain"]
        between = f"95 % interval {low:+.1f} to {high:+.1f}"
        if low <= 0 <= high:
            said.append(
                f"{row['name']}: {row['precision']:.1f}. {pairs} pairs cannot tell "
                f"which is better ({gain:+.1f}, {between})."
            )
        else:
            which = "better" if gain > 0 else "worse"
            said.append(
                f"{row['name']}: {row['precision']:.1f}. The result is {which} "
                f"({gain:+.1f}, {between})."
            )
    return said


def write_html(path: Path, report: Mapping[str, Any], run: Path) -> Path:
    """Write the page: verdict, scores, plan, pairs; then the report of the training.

    Args:
        path: The page.
        report: What `distil` returns.
        run: Folder of the training; it is not there if nothing was trained.
    """
    plan = Plan(**report["plan"])
    title = f"An encoder for {', '.join(plan.languages)}"
    parts = [
        heading(title, 1),
        items(report["verdict"]),
        *_scores(report),
        heading("Plan"),
        items(plan.lines()),
        *_pairs(report),
    ]
    if run.is_dir():
        parts += sections(read_run(run))
    return write_page(path, title, parts)


def _scores(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["encoders"]:
        return
    yield heading("On your held-out pairs, and on general text")
    heads = ["encoder", "MB", *COLUMNS.values(), "95 % interval of P@1"]
    general = list(report["encoders"][0]["general"])
    yield table(
        [*heads, *(f"general {name}" for name in general)],
        (
            [
                row["name"],
                f"{row['bytes'] / 1e6:,.1f}" if row["bytes"] else "",
                f"{row['precision']:.1f}",
                f"{row['mrr']:.1f}",
                f"{row['margin']:.4f}",
                "{:.1f} to {:.1f}".format(*row["interval"]),
                *(f"{row['general'][name]:.1f}" for name in general),
            ]
            for row in report["encoders"]
        ),
    )


def _pairs(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["pairs"]:
        return
    yield heading("Pairs")
    rows = []
    for code, counts in report["pairs"].items():
        lost = report["dropped"][code].items()
        reasons = ", ".join(f"{count:,} {name}" for name, count in lost)
        rows.append([code, *(f"{count:,}" for count in counts.values()), reasons])
    heads = ["pairs", "training", "tuning half", "reporting half", "not used"]
    yield table(heads, rows, words=True)
