"""Evaluation sets by name, for the command line, recipes and reports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd.checks import InputError, nearest, one_of
from keras_msd.evaluate.splits import PARTS, WHOLE, named
from keras_msd.on_use import OnUse

if TYPE_CHECKING:
    from keras_msd.evaluate.vectors import SentenceEncoder

ALL = "all"  # in place of the codes of languages: all that a set's files have


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A set of sentences that encoders are scored on.

    Each function gets the folder that holds the set, the languages (a list; None for
    all there are), and `split=` if the set has several.

    Attributes:
        name: What the set is called; its key in `SETS`.
        splits: Its splits, the one that is scored by default first.
        score: `score(encoder, folder, languages, **options)` gives scores: the
            name of the one that counts under `primary`, and perhaps `tracks`, scores
            by language.
        files: `files(folder, languages)` gives the paths that `score` reads, so
            that a recipe knows before its work that they are there, and by their hashes
            that they are the same. It may raise `InputError` for what is missing or
            damaged.
        folder: Where a data folder has the set.
        languages: Codes of those that are scored by default, besides English; if empty,
            in a recipe those of its pairs, one by one, else all that the files have.
        options: Keywords that `score` takes besides and that a user may give. With
            "part" among them a half can be scored, as `score_set` says.
        scores: The name in a row of scores.json of each score that goes there. By
            default the primary one goes there under the name of the set.
        label: What reports call it, and its score where that is the label in small
            letters; its name if empty.
        similarity: It compares the sentences of one language, too. A teacher that
            knows English alone is scored, with `languages=[]`, and `score` takes
            `within=False` for `cross_lingual` and its tracks alone.
        others: `others(folder, languages)` gives the languages there that are not
            among some; a recipe's rows then have `<score>_others`, too, and tracks
            under `<score>_tracks`.

    Example:
        >>> def score(encoder, folder, languages):
        ...     width = encoder.encode(["A text."]).shape[1]
        ...     return {"width": float(width), "primary": "width"}
        >>> msd.evaluate.SETS["width"] = msd.evaluate.EvaluationSet(
        ...     name="width", splits=("test",), score=score,
        ...     files=lambda folder, languages: [])
        >>> msd.evaluate.score_set(msd.testing.tiny_encoder(), "width", ".")["width"]
        16.0
        >>> del msd.evaluate.SETS["width"]
    """

    name: str
    splits: tuple[str, ...]
    score: Callable[..., dict[str, Any]]
    files: Callable[..., list[Path]]
    folder: str = ""
    languages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    scores: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    similarity: bool = False
    others: Callable[..., list[str]] | None = None

    def by_split(self, split: str) -> dict[str, str]:
        """Return `split` as a keyword argument; nothing where there is only one."""
        return {"split": split} if len(self.splits) > 1 else {}


def _bitext() -> Any:
    from keras_msd.evaluate import bitext

    return bitext


def _similarity_sets() -> Any:
    from keras_msd.evaluate import similarity_sets

    return similarity_sets


def _translations() -> Any:
    from keras_msd.evaluate import translations

    return translations


SCORE_ALIGNED = OnUse(lambda: _similarity_sets().score_aligned)
ALIGNED_FILES = OnUse(lambda: _similarity_sets().aligned_files)
SIMILARITY: dict[str, Any] = {
    "folder": "sts",
    "scores": {key: key for key in ("cross_lingual", "monolingual")},
    "similarity": True,
}


def aligned_set(name: str, hint: str = "") -> EvaluationSet:
    """Return the set of the row-aligned files `<name>.<split>.<xx>.tsv.gz`."""
    return EvaluationSet(
        name=name,
        splits=("dev", "test", "train"),
        score=partial(SCORE_ALIGNED, dataset=name, hint=hint),
        files=partial(ALIGNED_FILES, dataset=name, hint=hint),
        options=("part",),
        **SIMILARITY,
    )


SETS = {
    "stsb": aligned_set("stsb"),
    "sts2017-extended": EvaluationSet(
        name="sts2017-extended",
        splits=("test",),
        score=OnUse(lambda: _similarity_sets().score_sts2017),
        files=OnUse(lambda: _similarity_sets().sts2017_files),
        **SIMILARITY,
    ),
    "sick": aligned_set("sick"),
    "examples": aligned_set("examples"),
    "tatoeba": EvaluationSet(
        name="tatoeba",
        splits=("test",),
        score=OnUse(lambda: _translations().score_tatoeba),
        files=OnUse(lambda: _translations().tatoeba_files),
        folder="tatoeba",
        options=("part",),
        scores={"precision": "retrieval"},
        label="Tatoeba",
        others=OnUse(lambda: _translations().other_tatoeba),
    ),
    "held-out": EvaluationSet(
        name="held-out",
        splits=("dev",),
        score=OnUse(lambda: _translations().score_held_out),
        files=OnUse(lambda: _translations().held_out_files),
        folder="parallel/dev",
        options=("part",),
        scores={"precision": "held_out"},
        label="Held out",
    ),
    "un": EvaluationSet(
        name="un",
        splits=("all",),
        score=OnUse(lambda: _translations().score_un),
        files=OnUse(lambda: _translations().un_files),
        folder="un",
        languages=("es", "fr", "ru", "zh"),
        options=("queries",),
        scores={"precision": "un"},
        label="UN",
    ),
    "bucc2018": EvaluationSet(
        name="bucc2018",
        splits=("train", "sample", "test"),
        score=OnUse(lambda: _bitext().score_bucc),
        files=OnUse(lambda: _bitext().bucc_files),
        folder="bucc2018",
        languages=("de", "fr", "ru", "zh"),
        options=("tuned_on", "margin"),
        scores={"f1": "bucc"},
        label="BUCC",
    ),
}


def evaluation_set(name: str) -> EvaluationSet:
    """Return the set of that name; one that is not in `SETS` has row-aligned files."""
    return SETS.get(name) or aligned_set(name, unknown_set(name))


def unknown_set(name: str) -> str:
    """Return what messages say of a name that is not in `SETS`."""
    rule = f"`{name}` is no set of another layout: {', '.join(SETS)}."
    return f"{rule} {nearest(name, SETS)}".rstrip()


def score_labels() -> dict[str, str]:
    """Return the names of all sets' scores in a row of scores.json, in order.

    Each has the label that tables give it, empty where its name in plain words is one.
    """
    labels: dict[str, str] = {}
    for record in SETS.values():
        names = list(record.scores.values()) or [record.name]
        for name in names:
            labels[name] = record.label if record.label.lower() == name else ""
        if record.others is not None:
            first = labels[names[0]] or names[0]
            labels[f"{names[0]}_others"] = f"{first}, other languages"
    return labels


def check_split(record: EvaluationSet, split: str) -> None:
    """Raise `InputError` where a registered set has no such split."""
    if record.name in SETS and split not in record.splits:
        raise InputError(
            f"`{record.name}` has the splits {', '.join(record.splits)}. Received: "
            f"{split!r}."
        )


def check_part(record: EvaluationSet, part: str) -> None:
    """Raise `InputError` where there is no such part, or a set has no halves."""
    one_of(PARTS, part=part)
    if part != WHOLE and "part" not in record.options:
        halved = [name for name, known in SETS.items() if "part" in known.options]
        raise InputError(
            f"`{record.name}` is scored whole; {', '.join(halved)} and row-aligned "
            f"similarity files have halves. Received: part={part!r}. Give "
            f"part={WHOLE!r}, or take such a set."
        )


def score_set(
    encoder: "SentenceEncoder",
    name: str,
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str | None = None,
    part: str = WHOLE,
    **options: Any,
) -> dict[str, Any]:
    r"""Score an encoder on a set that is found in a folder by the names of its files.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        name: One of `SETS`, or the beginning of row-aligned similarity files such as
            `mine`: `<name>.<split>.<xx>.tsv.gz`, in the folder or in its `sts/`.
        folder: The folder as downloaded, or a data folder.
        languages: Codes; None for all: those of the folder, or of the set if it is
            STS 2017, BUCC or UN.
        split: Such as `dev` or `test`; None for the set's usual one.
        part: "all"; or, of row-aligned similarity files and Tatoeba, a half: "choose",
            to choose settings on, or "report", for the scores that are then said. It
            follows from the English sentences; no sentence is scored in both. Tatoeba
            looks up half of the pairs, among all sentences.
        **options: Of "bucc2018" `tuned_on` (the split whose best F1 sets the
            threshold) and `margin` as `mine` takes it; of "un" `queries` (how many
            sentences are looked up, evenly spread).

    Returns:
        The scores, as the set's own function gives them; of a half, its name as `part`.

    Raises:
        InputError: The set has no such split, half or option, or files are missing or
            damaged.

    Example:
        >>> import gzip
        >>> for code, cat in (("en", "A cat"), ("de", "Eine Katze")):
        ...     rows = f"5\t{cat}.\t{cat}!\n0\t{cat}.\tX\n"
        ...     with gzip.open(f"mine.dev.{code}.tsv.gz", "wt") as file:
        ...         _ = file.write(rows)
        >>> scores = msd.evaluate.score_set(msd.testing.tiny_encoder(), "mine", ".")
        >>> sorted(scores["tracks"])
        ['de', 'en', 'en-de']
    """
    record = evaluation_set(name)
    if unknown := [key for key in options if key not in record.options]:
        known = ", ".join(f"`{key}`" for key in record.options)
        raise InputError(
            f"`{name}` takes {known or 'no options'}. Received: {', '.join(unknown)}. "
            "Leave it out."
        )
    chosen = split or record.splits[0]
    check_split(record, chosen)
    codes = list(record.languages) or None if languages is None else list(languages)
    check_part(record, part)
    options |= record.by_split(chosen) | named(part)
    return {**record.score(encoder, Path(folder), codes, **options), **named(part)}
