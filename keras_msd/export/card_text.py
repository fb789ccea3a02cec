"""An artefact's card for people: Markdown, every number from `card.json`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

UNSTATED = "not stated; ask whoever gave you this file"
LICENCES = {
    "license": "this artefact",
    "teacher_license": "the teacher it learned from",
    "data_license": "the sentences it was trained on",
}
OPERATORS = {
    "operators": "Operators",
    "not_delegated": "Operators that XNNPACK does not run",
}


def card_text(card: Mapping[str, Any]) -> str:
    """Return the card as Markdown.

    Args:
        card: What `card.json` holds: `format`, `quantize`, `dim`, `max_length`,
            `languages`, `encoder`, `tokenizer`, `files`, `bytes`, `how_to_load`, and
            where there is one `parity`, `operators`, `not_delegated`, `warning` and the
            licences.
    """
    return "\n".join(_lines(card)) + "\n"


def score_title(name: str) -> str:
    """Return what people call a score of `evaluate.sts` or `evaluate.sts_aligned`."""
    kind = "" if name == "spearman" else f"{name.replace('_', '-')} "
    return f"{kind}Spearman x 100"


def _lines(card: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Sentence encoder, {card['format']}"
    yield ""
    yield (
        f"Turns a sentence into {card['dim']} numbers, so that sentences of like "
        "meaning have a high cosine, in whatever language each is. "
        f"Longer text than {card['max_length']} tokens is cut."
    )
    if warning := card.get("warning"):
        yield from ("", f"**{warning}**")
    yield from _section("What it is", _facts(card))
    yield from _section("How to load it, from this FOLDER", _code(card))
    if parity := card.get("parity"):
        yield from _section("How close it is to the encoder it was made from", ())
        yield from _parity(parity)
    for key, title in OPERATORS.items():
        if key in card:
            yield from _section(title, [_listed(card[key])])
    yield from _section("Files", ())
    rows = [
        (f"`{name}`", f"{facts['bytes']:,}", f"`{facts['sha256']}`")
        for name, facts in sorted(card["files"].items())
    ]
    yield from _table(("file", "bytes", "SHA-256"), rows)


def _facts(card: Mapping[str, Any]) -> Iterator[str]:
    encoder, tokenizer = card["encoder"], card["tokenizer"]
    rows = [
        ("format", card["format"]),
        ("weights", card.get("quantize") or "float32, as trained"),
        *((("kernels", _listed(card["kernels"])),) if "kernels" in card else ()),
        ("languages", ", ".join(card["languages"]) or "not stated"),
        ("parameters", f"{encoder['parameters']:,}"),
        ("bytes of the encoder's weights", f"{encoder['bytes']:,}"),
        ("bytes of the artefact", f"{card['bytes']:,}"),
        ("tokenizer", f"{tokenizer['kind']}, {tokenizer['vocabulary_size']:,} pieces"),
        *(
            (f"licence of {of}", card.get(key) or UNSTATED)
            for key, of in LICENCES.items()
        ),
        ("made with", _versions(card)),
        ("encoder's fingerprint", f"`{encoder['fingerprint']}`"),
    ]
    yield from _table(("", ""), rows)


def _versions(card: Mapping[str, Any]) -> str:
    libraries = (f"{name} {v}" for name, v in sorted(card.get("libraries", {}).items()))
    return ", ".join([card.get("made_with", ""), *libraries]).strip(", ")


def _code(card: Mapping[str, Any]) -> Iterator[str]:
    yield from ("```python", card["how_to_load"].rstrip("\n"), "```")
    for name, inputs in sorted(card.get("signatures", {}).items()):
        shown = ", ".join(f"`{key}` {shape}" for key, shape in inputs.items())
        yield from ("", f"`{name}`: {shown}")


def _parity(parity: Mapping[str, Any]) -> Iterator[str]:
    limits = parity["thresholds"]
    longest = limits["max_length_change"]
    rows = [
        ("sentences", f"{parity['sentences']:,}", ""),
        ("smallest cosine", f"{parity['min_cosine']:.6f}", f"{limits['min_cosine']:g}"),
        ("mean cosine", f"{parity['mean_cosine']:.6f}", ""),
        (
            "nearest neighbours kept",
            f"{100 * parity['neighbours_kept']:.1f} %",
            f"{100 * limits['min_neighbours']:g} %",
        ),
        (
            "largest change of a vector's length",
            f"{100 * parity['length_change']:.2f} %",
            "" if longest is None else f"{100 * longest:.2f} %",
        ),
    ]
    sts = parity["sts"]
    for name, before in sts["before"].items():
        shown = f"{before:.2f} before, {sts['after'][name]:.2f} after"
        limit = f"at most {limits['max_sts_loss']:g} lost"
        rows.append((score_title(name), shown, limit))
    yield from _table(("measured in the target runtime", "", "limit"), rows)
    yield from (
        "",
        f"Spearman is taken on {sts['pairs']:,} graded pairs: {sts['set']}. "
        f"The smallest cosine is that of {parity['worst']!r}.",
    )


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from lines


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _cell(text: str) -> str:
    """Return a text that neither ends its row nor begins a new cell."""
    return " ".join(text.splitlines()).replace("|", "\\|")


def _listed(operators: Any) -> str:
    if isinstance(operators, Mapping):
        operators = [f"{name} ({count})" for name, count in sorted(operators.items())]
    return ", ".join(map(str, operators)) or "None."
