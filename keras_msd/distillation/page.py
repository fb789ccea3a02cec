"""The report page of `distil`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_msd.distillation.plan import Plan
from keras_msd.report import page
from keras_msd.report.reports import sections
from keras_msd.report.runs import read_run

COLUMNS = {
    "precision": "P@1",
    "mrr": "MRR",
    "margin": "margin",
}


def write_page(path: Path, report: Mapping[str, Any], run: Path) -> Path:
    """Write the page: verdict, scores, plan, pairs; then the report of the training.

    Args:
        path: The page.
        report: What `distil` returns.
        run: Folder of the training; it is not there if nothing was trained.
    """
    plan = Plan(**report["plan"])
    title = f"An encoder for {', '.join(plan.languages)}"
    parts = [
        page.heading(title, 1),
        page.items(report["verdict"]),
        *_scores(report),
        page.heading("Plan"),
        page.items(plan.lines()),
        *_pairs(report),
    ]
    if run.is_dir():
        parts += sections(read_run(run))
    return page.write_page(path, title, parts)


def _scores(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["encoders"]:
        return
    yield page.heading("On your held-out pairs, and on general text")
    heads = ["encoder", "MB", *COLUMNS.values(), "95 % interval of P@1"]
    general = list(report["encoders"][0]["general"])
    yield page.table(
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
    yield page.heading("Pairs")
    rows = []
    for code, counts in report["pairs"].items():
        lost = report["dropped"][code].items()
        reasons = ", ".join(f"{count:,} {name}" for name, count in lost)
        rows.append([code, *(f"{count:,}" for count in counts.values()), reasons])
    heads = ["pairs", "training", "tuning half", "reporting half", "not used"]
    yield page.table(heads, rows, words=True)
