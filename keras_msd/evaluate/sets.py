"""Evaluation sets by name, for the command line, recipes and reports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd.checks import InputError, nearest, one_of
from keras_msd.evaluate.halves import PARTS, WHOLE, named
from keras_msd.registry import Record, Registry, loaded, read_records

if TYPE_CHECKING:
    from keras_msd.evaluate.vectors import SentenceEncoder

ALL = "all"  # in place of the codes of languages: all that a set's files have
RENAMED = {
    "stsb-multi-mt": "stsb",
    "retrieval": "tatoeba",
    "bucc": "bucc2018",
    "made": "examples",
}

Part = str | Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class EvaluationSet(Record):
    """A set of sentences that encoders are scored on.

    Functions may be given as dotted paths. Each gets the folder that holds the set,
    the languages (a list; None for all there are), `split=` if the set has several,
    and `arguments`.

    Attributes:
        words: What it is and what its score is, as reports say it.
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
        arguments: Keywords that every function gets, for records that share functions.
        scores: The name in a row of scores.json of each score that goes there. By
            default the primary one goes there under the name of the set.
        label: What reports call it, and its score where that is the label in small
            letters; its name if empty.
        similarity: It compares the sentences of one language, too. A teacher that
            knows English alone is scored, with `languages=[]`, and `score` takes
            `within=False` for `cross_lingual` and its tracks alone, perhaps with
            `rows_at_most=n` for n rows of each.
        others: `others(folder, languages)` gives the languages there that are not
            among some; a recipe's rows then have `<score>_others`, too, and tracks
            under `<score>_tracks`.

    Example:
        >>> def score(encoder, folder, languages):
        ...     width = encoder.encode(["A text."]).shape[1]
        ...     return {"width": float(width), "primary": "width"}
        >>> record = msd.evaluate.EvaluationSet(
        ...     name="width", words="width of the vectors", splits=("test",),
        ...     score=score, files=lambda folder, languages: [])
        >>> _ = msd.evaluate.SETS.register(record)
        >>> msd.evaluate.score_set(msd.testing.tiny_encoder(), "width", ".")["width"]
        16.0
        >>> _ = msd.evaluate.SETS.remove("width")
    """

    words: str
    splits: tuple[str, ...]
    score: Part
    files: Part
    folder: str = ""
    languages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    similarity: bool = False
    others: Part | None = None

    def call(self, function: Part, /, *given: Any, split: str, **options: Any) -> Any:
        """Call one of the functions with what it gets of a split and `arguments`."""
        several = {"split": split} if len(self.splits) > 1 else {}
        return loaded(function)(*given, **several, **{**self.arguments, **options})


def similarity_set(name: str, words: str, **parts: Any) -> EvaluationSet:
    """Return a set in `sts/`, by default of files `<name>.<split>.<xx>.tsv.gz`.

    Args:
        name: Its name.
        words: What it is.
        **parts: Of the record, where they differ from row-aligned files'.
    """
    usual: dict[str, Any] = {
        "splits": ("dev", "test", "train"),
        "score": "keras_msd.evaluate.similarity_sets.score_aligned",
        "files": "keras_msd.evaluate.similarity_sets.aligned_files",
        "folder": "sts",
        "arguments": {"dataset": name},
        "options": ("part",),
        "scores": {"cross_lingual": "cross_lingual", "monolingual": "monolingual"},
        "similarity": True,
    }
    return EvaluationSet(name=name, words=words, **(usual | parts))


def _record(**parts: Any) -> EvaluationSet:
    make = similarity_set if parts.get("similarity") else EvaluationSet
    return make(**parts)


SETS: Registry[EvaluationSet] = Registry(
    "evaluation set", *read_records(_record, Path(__file__).with_name("sets.toml"))
)


def evaluation_set(name: str) -> EvaluationSet:
    """Return the set of that name; one that is not registered has row-aligned files.

    Raises:
        InputError: The name is an old one.
    """
    if name in SETS:
        return SETS[name]
    if name in RENAMED:
        raise InputError(
            f"The evaluation set `{name}` is now called `{RENAMED[name]}`. Received: "
            f"{name!r}. Give the new name."
        )
    rule = f"`{name}` is no set of another layout: {', '.join(SETS)}."
    hint = f"{rule} {nearest(name, SETS)}".rstrip()
    return similarity_set(name, name, arguments={"dataset": name, "hint": hint})


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
        **options: `tuned_on`, `margin` and `engine` as `bucc_folder` takes them;
            `queries` and `engine` as `un_folder` does.

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
    given, half = (encoder, Path(folder), codes), named(part)
    scores = record.call(record.score, *given, split=chosen, **half, **options)
    return {**scores, **half}
