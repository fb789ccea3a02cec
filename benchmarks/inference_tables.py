"""What the inference benchmark says: ratios of paired rounds, and a page of tables."""

import statistics
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
CELL = ("kind", "threads", "batch", "tokens")
KINDS = {"ids": "token ids to vectors", "text": "strings to vectors"}
FACTS = {
    "megabytes": "MB on disk",
    "peak_mib_batch_1": "peak MiB, batch 1",
    "peak_mib_batch_32": "peak MiB, batch 32 too",
    "min_cosine": "min cosine",
    "mean_cosine": "mean cosine",
}


def ratios(rows: Iterable[Row], ours: str, theirs: str) -> list[Row]:
    """Return, for each cell, how many times the time of `ours` `theirs` takes.

    Rounds are paired: `ratio` is the median of the rounds' ratios, `interval` their
    least and their greatest.
    """
    spent: dict[tuple, dict[str, list[float]]] = {}
    for row in rows:
        cell = tuple(row[key] for key in CELL)
        spent.setdefault(cell, {})[row["system"]] = row["rounds"]
    result = []
    for cell, by_system in spent.items():
        pairs = zip(by_system[theirs], by_system[ours], strict=True)
        each = [their / our for their, our in pairs]
        bounds = [round(min(each), 3), round(max(each), 3)]
        middle = {"ratio": round(statistics.median(each), 3), "interval": bounds}
        result.append(dict(zip(CELL, cell, strict=True)) | middle)
    return result


def markdown(result: Row, reference: str) -> str:
    """Return the result as Markdown: files and memory, times, ratios."""
    lines = [
        "# Inference: all-MiniLM-L6-v2 in every runtime",
        "",
        f"{result['machine']}; {result['alternated_rounds']} alternated rounds; peers' "
        f"ONNX files by {result['peer_onnx']}. Cosines are to {reference}.",
        "",
        *_table(
            ["system", *FACTS.values()],
            [
                [name, *(str(facts[key]) for key in FACTS)]
                for name, facts in result["systems"].items()
            ],
        ),
    ]
    for threads in sorted({row["threads"] for row in result["rows"]}):
        for kind, words in KINDS.items():
            own = [
                row
                for row in result["rows"]
                if (row["threads"], row["kind"]) == (threads, kind)
            ]
            lines += ["", f"## {words.capitalize()}, {_threads(threads)}", ""]
            lines += _times(own)
    lines += ["", "## onnxruntime int8 over LiteRT int8", ""]
    lines += _table(
        ["", "threads", "batch", "tokens", "times as long", "least to greatest"],
        [
            [
                KINDS[one["kind"]],
                *(str(one[key]) for key in CELL[1:]),
                f"{one['ratio']:.2f}",
                "{:.2f} to {:.2f}".format(*one["interval"]),
            ]
            for one in result["ratios"]
        ],
    )
    return "\n".join(lines) + "\n"


def _times(rows: list[Row]) -> list[str]:
    columns = sorted({(row["batch"], row["tokens"]) for row in rows})
    found = {(row["system"], row["batch"], row["tokens"]): row for row in rows}
    names = list(dict.fromkeys(row["system"] for row in rows))
    heads = [f"{batch} x {tokens} tokens" for batch, tokens in columns]
    body = []
    for name in names:
        cells = [found[name, *column] for column in columns]
        body.append(
            [name]
            + [f"{c['ms']:.2f} ms, {c['sentences_per_second']:,.0f}/s" for c in cells]
        )
    return _table(["", *heads], body)


def _threads(number: int) -> str:
    return "one thread" if number == 1 else f"{number} threads"


def _table(head: list[str], body: list[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(row) + " |" for row in [head, rule, *body]]
