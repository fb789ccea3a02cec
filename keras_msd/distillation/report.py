"""Score the encoders of a `distil` run, choose one, and write what the scores show."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.arrays import unit_rows
from keras_msd.comparison import Prompted, Questions
from keras_msd.data.corpora import LANGUAGES, example_pairs, example_similarity
from keras_msd.data.pair import ENGLISH
from keras_msd.distillation.plan import Plan
from keras_msd.evaluate.measures import encoded, mean_score, percent
from keras_msd.evaluate.parts import REPORT, half_of
from keras_msd.evaluate.similarity import sts_tracks
from keras_msd.evaluate.translations import TEXT, retrieval_languages
from keras_msd.report.reports import heading, items, sections, table, write_page
from keras_msd.report.runs import read_run

COLUMNS = {  # of a row of scores: what tables call it, and its format
    "precision": ("P@1", ".1f"),
    "mrr": ("MRR", ".1f"),
    "margin": ("margin", ".4f"),
    "agreement": ("agreement", ".4f"),
}
GENERAL_ROWS = 300  # graded general pairs per language
Held = Mapping[str, Sequence[tuple[str, str]]]  # pairs by code


class HeldOut:
    """One half of the text that was held out, ready to score encoders.

    Args:
        part: "choose" for the tuning half, "report" for the reporting half.
        pairs: The held-out pairs by code; may be empty.
        languages: Codes of the languages whose general text is scored, too.
        goals: Returns the vectors that sentences were to learn; None if translations
            were to learn those of their sources.
        texts: Held-out sentences, if there are no pairs.

    Attributes:
        questions: The pairs; None if there are none.
        texts: The sentences that are embedded.
    """

    def __init__(
        self,
        part: str,
        pairs: Held,
        languages: Collection[str],
        goals: Callable[[list[str]], np.ndarray] | None = None,
        texts: Iterable[str] = (),
    ) -> None:
        self.part, self.languages, self.goals = part, languages, goals
        rows = [
            (source, target, code)
            for code, found in pairs.items()
            for source, target in found
            if half_of(source) == part
        ]
        self.questions = Questions(rows) if rows else None
        own = [text for text in texts if half_of(text) == part]
        self.texts = self.questions.texts if self.questions else own

    @property
    def size(self) -> int:
        """How many pairs, or sentences where there are no pairs."""
        return len(self.questions.units if self.questions else self.texts)

    def score(self, encoder: Any) -> tuple[dict[str, Any], np.ndarray]:
        """Score an encoder.

        Returns:
            The scores, and the share of directions in which each pair is found; of
            sentences no share. `agreement` is the mean cosine with `goals`.
        """
        vectors = encoded(Prompted(encoder, None).encode, self.texts)
        row, hits = dict[str, Any](), np.empty(0)
        if self.questions:
            margins, ranks = self.questions.measure(vectors)
            row = self.questions.summary(margins, ranks, 0)
            hits = (margins > 0).mean(axis=0)
        if self.goals:
            learnt = unit_rows(self.goals(self.texts).astype(np.float64))
            cosines = (unit_rows(vectors.astype(np.float64)) * learnt).sum(axis=1)
            row["agreement"] = round(float(cosines.mean()), 6)
        row["general"] = general_scores(encoder, self.languages, self.part)
        return row, hits


def choose(
    encoders: Mapping[str, Any], held: HeldOut, guard: float | None
) -> tuple[str, dict[str, Any]]:
    """Return the name of the best encoder on the tuning half, and all scores there.

    Where there are goals, the agreement with them decides: a mean over all sentences,
    when nearly all translations are found before training. Otherwise the mean
    reciprocal rank decides, and where that is equal the margin.

    Args:
        encoders: The first is the one before training.
        held: The tuning half.
        guard: Most points that a general score may lose against the first; None for any
            loss.
    """
    scores = {name: held.score(encoder)[0] for name, encoder in encoders.items()}
    first = next(iter(scores.values()))["general"]
    allowed = [
        name
        for name, row in scores.items()
        if guard is None
        or all(first[key] - row["general"][key] <= guard for key in first)
    ]
    decides = ("agreement",) if held.goals else ("mrr", "margin")
    best = max(allowed, key=lambda name: [scores[name][it] for it in decides])
    return best, scores


def score(encoders: Mapping[str, Any], held: HeldOut) -> list[dict[str, Any]]:
    """Return the scores of encoders on the reporting half, the result's first.

    Returns:
        Of pairs as in `encoders` of `compare`, without sizes and times, and:

        - `agreement`: see `HeldOut.score`;
        - `general`: see `general_scores`;
        - `gain`: of pairs, for all but the first, how much higher the first's precision
          is, and its 95 % bootstrap interval, from the same draws of source sentences.
    """
    rows, found = [], list[np.ndarray]()
    for name, encoder in encoders.items():
        row, hits = held.score(encoder)
        if held.questions and found:
            difference = found[0] - hits
            interval = held.questions.interval(difference, 0)
            row["gain"] = [percent(difference.mean()), *interval]
        rows.append({"name": name, **row})
        found.append(hits)
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


def for_card(row: Mapping[str, Any], count: int) -> dict[str, float]:
    """Return the scores of one row of `score`, with names for a card.

    Args:
        row: The row.
        count: Number of held-out pairs, or sentences, that it is scored on.
    """
    unit = "pairs" if "mrr" in row else "sentences"
    names = {
        "precision": f"P@1 x 100, {count} held-out {unit}",
        "mrr": f"MRR x 100, {count} held-out {unit}",
        "agreement": f"Cosine with the uncut encoder, {count} held-out {unit}",
    }
    general = {
        "similarity": "Spearman x 100 with all-MiniLM-L6-v2, general sentences",
        "translations": "P@1 x 100, translations of general sentences",
    }
    scores = {said: row[name] for name, said in names.items() if name in row}
    return scores | {general[name]: score for name, score in row["general"].items()}


def teacher_row(name: str) -> str:
    """Return what a row of scores calls the teacher of this name."""
    return f"teacher, {name}"


def words(rows: Sequence[Mapping[str, Any]], count: int, uncut: str) -> list[str]:
    """Return sentences that say what the rows of `score` show.

    Args:
        rows: The result's row first.
        count: Number of held-out pairs, or sentences, that they are scored on.
        uncut: Name of the encoder whose vectors were learnt.
    """
    said = [] if "mrr" not in rows[0] else _of_translations(rows, count)
    if "agreement" in rows[0]:
        unit = "pairs" if said else "sentences"
        others = [
            f"{row['name']} {row['agreement']:.4f}"
            for row in rows[1:]
            if row["name"] != teacher_row(uncut)
        ]
        than = f" ({', '.join(others)})" if others else ""
        said.append(
            f"The mean cosine of its vectors with those of {uncut} is "
            f"{rows[0]['agreement']:.4f}{than}, on {count} held-out {unit}."
        )
    return said


def _of_translations(rows: Sequence[Mapping[str, Any]], pairs: int) -> list[str]:
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
        other = "agreement" if "agreement" in first else "margin"
        return [
            *said,
            "All encoders find every translation: these pairs cannot tell them apart, "
            f"only the {other} can. Add harder pairs, such as similar sentences.",
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


def shown_columns(row: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return those of `COLUMNS` that a row of scores has."""
    return {name: column for name, column in COLUMNS.items() if name in row}


def _scores(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["encoders"]:
        return
    first = report["encoders"][0]
    columns, general = shown_columns(first), list(first["general"])
    yield heading("On held-out text of yours, and on general text")
    heads = ["encoder", "MB", *(said for said, _ in columns.values())]
    heads += ["95 % interval of P@1"] * len(_interval(first))
    yield table(
        [*heads, *(f"general {name}" for name in general)],
        (
            [
                row["name"],
                f"{row['bytes'] / 1e6:,.1f}" if row["bytes"] else "",
                *(f"{row[name]:{form}}" for name, (_, form) in columns.items()),
                *_interval(row),
                *(f"{row['general'][name]:.1f}" for name in general),
            ]
            for row in report["encoders"]
        ),
    )


def _interval(row: Mapping[str, Any]) -> list[str]:
    low, high = row.get("interval", (None, None))
    return [] if low is None else [f"{low:.1f} to {high:.1f}"]


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
