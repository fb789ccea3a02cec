"""`card.json`: what an artefact is, how to load it, and checksums of its files."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pydantic

from keras_msd import __version__
from keras_msd.checks import InputError, explained, findings
from keras_msd.evaluate.bitext import Threshold
from keras_msd.evaluate.measures import cost
from keras_msd.export.formats import Format
from keras_msd.io.files import CARD as CARD_BYTES
from keras_msd.io.files import atomic_path, read_table, sha256_of, write_json
from keras_msd.usage import Usage

CARD = "card.json"
TEXT = "README.md"
VERSION = 1
WIDEST = 2**16  # numbers in a vector, so that a damaged card cannot ask for all memory

UNSTATED = "not stated; ask whoever gave you this file"
# What texts of like meaning have.
NEAR = {
    "cosine": "high cosine",
    "dot": "high dot product",
    "euclidean": "small Euclidean distance",
    "manhattan": "small Manhattan distance",
}
LICENCES = {
    "license": "this artefact",
    "teacher_license": "the teacher it learned from",
    "data_license": "the sentences it was trained on",
}


class FileFacts(pydantic.BaseModel):
    """Size and SHA-256 of one file."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    bytes: Annotated[int, pydantic.Field(ge=0)]
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]


class Card(Usage):
    """Keys of a card that loading relies on; the others are for people."""

    model_config = pydantic.ConfigDict(strict=True, extra="allow")

    card_version: int
    format: str
    dim: Annotated[int, pydantic.Field(ge=1, le=WIDEST)]
    files: dict[str, FileFacts]
    threshold: Threshold | None = None
    scores: dict[str, float] | None = None


def write_card(
    folder: Path, encoder: Any, record: Format, languages: Iterable[str], **facts: Any
) -> dict[str, Any]:
    """Write `card.json` and `README.md` of the artefact in `folder`.

    Args:
        folder: Holds the finished files.
        encoder: What they were made from.
        record: The artefact's format.
        languages: Codes of the languages it was trained on.
        **facts: What the exporter and the proof found, and the licences.

    Returns:
        The card.
    """
    files = {name: _file_facts(folder / name) for name in _names(folder)}
    card = {
        "card_version": VERSION,
        "made_with": f"keras-msd {__version__}",
        "format": record.name,
        "how_to_load": record.how_to_load,
        "libraries": {
            name: import_module(name.replace("-", "_")).__version__
            for name in record.libraries
        },
        "warning": record.warning,
        "dim": encoder.dim,
        "max_length": encoder.max_length,
        "languages": sorted(set(languages)),
        "encoder": {"fingerprint": encoder.fingerprint} | cost(encoder),
        "tokenizer": {
            "kind": encoder.tokenizer.kind,
            "vocabulary_size": encoder.tokenizer.vocabulary_size,
            "fingerprint": encoder.tokenizer.fingerprint,
        },
        "files": files,
        "bytes": sum(size["bytes"] for size in files.values()),
    } | facts
    _write(folder, record, card)
    return card


def add_scores(folder: Path, record: Format, scores: Mapping[str, float]) -> None:
    """Add what an artefact reached to its card, such as `{"P@1 x 100, mine": 97.5}`.

    Args:
        folder: The artefact.
        record: Its format.
        scores: Scores of the artefact; each name says on what it was measured.
    """
    _write(folder, record, read_card(folder) | {"scores": dict(scores)})


def _write(folder: Path, record: Format, card: dict[str, Any]) -> None:
    write_json(folder / CARD, card)
    head = "".join(f"{line}\n" for line in record.header(card)) if record.header else ""
    with atomic_path(folder / TEXT) as temporary:
        text = head + "\n\n".join(_blocks(card)) + "\n"
        temporary.write_text(text, encoding="utf-8")


def read_card(folder: str | Path) -> dict[str, Any]:
    """Read an artefact's card and check its files against it.

    Raises:
        InputError: There is no card, it is damaged or not one of ours, or a file is
            missing, damaged, of another export or outside the folder.

    Example:
        >>> import pathlib
        >>> card = '{"card_version": 1, "format": "mine", "dim": 16, "files": {}}'
        >>> pathlib.Path("card.json").write_text(card)
        61
        >>> msd.export.read_card(".")["dim"]
        16
    """
    folder = Path(folder)
    card = parse_card(folder / CARD)
    if card["card_version"] != VERSION:
        raise InputError(
            f"`{folder / CARD}` must have card_version {VERSION}. Received: "
            f"{card['card_version']!r}. Export the encoder again."
        )
    root = folder.resolve()
    for name, facts in card["files"].items():
        _check_file(root, folder, name, facts)
    return card


def check_parts(folder: Path, patterns: Iterable[str]) -> None:
    """Check the files that exist against the card next to them.

    A hub may have left out files; a card that is none of ours says nothing.

    Args:
        folder: An artefact that is read as another library would.
        patterns: Names of the files that are read.

    Raises:
        InputError: A file or the card is damaged, or of another export.
    """
    meant = f"Or delete {CARD}, if the change was meant."
    with explained(lambda error: f"{error} {meant}", InputError):
        if "card_version" not in read_table(folder / CARD):
            return
        root, asked = folder.resolve(), tuple(patterns)
        for name, facts in parse_card(folder / CARD)["files"].items():
            if any(fnmatch(name, it) for it in asked) and (root / name).exists():
                _check_file(root, folder, name, facts)


def parse_card(path: Path) -> dict[str, Any]:
    """Read a card without a look at the files that it lists.

    Raises:
        InputError: There is no card, it is damaged or not one of ours.
    """
    if path.is_file():
        repair = "It is no card; take a whole copy."
        CARD_BYTES.check(path.stat().st_size, f"`{path}`", repair)
    try:
        card = read_table(path)
        Card.model_validate(card)
    except pydantic.ValidationError as error:
        wrong = findings(error, Card.model_fields)
        raise InputError(
            f"`{path}`: {' '.join(wrong)} Take a whole copy, or export again."
        ) from error
    return card


def _check_file(root: Path, folder: Path, name: str, facts: Mapping[str, Any]) -> None:
    try:
        path = (root / name).resolve()
        inside = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        inside = False
    if not inside:
        raise InputError(
            f"`{folder}` lacks the file {name!r:.200} of its card. Take a whole copy."
        )
    size = path.stat().st_size
    if size != facts["bytes"]:
        wrong = f"must have {facts['bytes']} bytes, as {CARD} says. Received: {size}."
    elif _file_facts(path) != facts:
        wrong = f"differs from its checksum in {CARD}."
    else:
        return
    raise InputError(f"`{folder / name}` {wrong} Take a whole copy, or export again.")


def _names(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    return [name for name in names if name not in (CARD, TEXT)]


def _file_facts(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def score_title(name: str) -> str:
    """Return the display name of a score of `evaluate.sts` or `sts_aligned`."""
    kind = "" if name == "spearman" else f"{name.replace('_', '-')} "
    return f"{kind}Spearman x 100"


def _blocks(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield the blocks of the card as Markdown; `card` is what `card.json` holds."""
    similarity = card.get("similarity_fn_name", "cosine")
    yield f"# Sentence encoder, {card['format']}"
    yield (
        f"Turns a sentence into {card['dim']} numbers, so that sentences of like "
        f"meaning have a {NEAR[similarity]}, in whatever language each is. "
        f"Longer text than {card['max_length']} tokens is cut."
    )
    if warning := card.get("warning"):
        yield f"**{warning}**"
    yield from ("## What it is", _table(("", ""), _what_it_is(card)))
    if prompts := card.get("prompts"):
        yield from ("## What to put before a text", _prompts(prompts, card))
    yield "## How to load it, from this FOLDER"
    code = card["how_to_load"].rstrip("\n")
    yield f"```python\n{code}\n```"
    parity = card["parity"]
    yield "## How close it is to the encoder it was made from"
    yield _table(("measured in the target runtime", "", "limit"), _parity(parity))
    yield (
        f"Spearman is taken on {parity['sts']['pairs']:,} graded pairs: "
        f"{parity['sts']['set']}. The smallest cosine is that of {parity['worst']!r}."
    )
    if threshold := card.get("threshold"):
        yield from ("## When two sentences mean the same", _threshold(threshold))
    if scores := card.get("scores"):
        rows = ((name, f"{score:g}") for name, score in scores.items())
        yield from ("## What it reached", _table(("", ""), rows))


def _what_it_is(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    encoder, tokenizer = card["encoder"], card["tokenizer"]
    yield "format", card["format"]
    yield "weights", card["quantize"] or "float32, as trained"
    if "min_onnxruntime" in card:
        least = card["min_onnxruntime"]
        yield "ONNX", f"opset {card['opset']}, for onnxruntime {least} or newer"
    yield "languages", ", ".join(card["languages"]) or "not stated"
    yield "parameters", f"{encoder['parameters']:,}"
    yield "bytes of the artefact", f"{card['bytes']:,}"
    yield "tokenizer", f"{tokenizer['kind']}, {tokenizer['vocabulary_size']:,} pieces"
    for key, of in LICENCES.items():
        yield f"licence of {of}", card[key] or UNSTATED
    libraries = [f"{name} {v}" for name, v in sorted(card["libraries"].items())]
    yield "made with", ", ".join([card["made_with"], *libraries])


def _prompts(prompts: Mapping[str, str], card: Mapping[str, Any]) -> str:
    default = card.get("default_prompt_name")
    rows = (
        (f"`{name}`" + " (default)" * (name == default), f"`{json.dumps(text)}`")
        for name, text in sorted(prompts.items())
    )
    return (
        "The file itself adds none of these texts. keras-msd adds them: the default to "
        "every text, `query` and `document` in `encode_query`, `encode_document` and "
        f"`search`.\n\n{_table(('for', 'text'), rows)}"
    )


def _parity(parity: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    limits, sts = parity["thresholds"], parity["sts"]
    yield "sentences", f"{parity['sentences']:,}", ""
    smallest, least = parity["min_cosine"], limits["min_cosine"]
    yield "smallest cosine", f"{smallest:.6f}", f"{least:g}"
    yield "mean cosine", f"{parity['mean_cosine']:.6f}", ""
    kept, least = parity["neighbours_kept"], limits["min_neighbours"]
    yield "nearest neighbours kept", f"{kept:.1%}", f"{100 * least:g} %"
    change, most = parity["length_change"], limits["max_length_change"]
    yield "largest change of a vector's length", f"{change:.2%}", f"{most:.2%}"
    for name, before in sts["before"].items():
        shown = f"{before:.2f} before, {sts['after'][name]:.2f} after"
        yield score_title(name), shown, f"at most {limits['max_sts_loss']:g} lost"


def _threshold(found: Mapping[str, Any]) -> str:
    """Return what `evaluate.calibrate_threshold` gave, in words."""
    of = f"{found['pairs']:,} pairs" + (f" of {found['set']}" if found["set"] else "")
    if found["cosine"] is None:
        return f"No cosine gives a precision of {found['asked']:g} % on {of}."
    return (
        "Cosine above which two sentences of different languages mean the same: "
        f"{found['cosine']:.4f}. Measured on {of}, with the nearest wrong sentence of "
        f"each: {found['precision']:.1f} % of what is above are translations, and "
        f"{found['recall']:.1f} % of the translations are above."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    # No cell ends its row or begins a new one.
    cells = (
        [" ".join(text.splitlines()).replace("|", "\\|") for text in row]
        for row in (head, ["---"] * len(head), *rows)
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
