"""Evaluation sets by name, for the command line, recipes and reports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd.checks import InputError, nearest, one_of
from keras_msd.evaluate.parts import PARTS, WHOLE, SetFile, named, read_parts
from keras_msd.lazy import OnUse

if TYPE_CHECKING:
    from keras_msd.data.pair import GradedPair
    from keras_msd.evaluate.measures import SentenceEncoder

ALL = "all"  # instead of language codes: all languages of a set's files


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A set of sentences to score encoders on.

    Attributes:
        name: Name of the set; its key in `SETS`.
        splits: Names of its splits; the first one is the default.
        find: `find(folder, languages, split)` returns a `SetFile` for each part of the
            set, such as a language: its files, and what reads them. `languages` may be
            None, for all. A recipe checks before its work that the files exist, and
            hashes them. The function may raise `InputError` for missing files.
        score: `score(encoder, parts, **options)` returns scores by name, the name of
            the main score as `primary`, and optionally `tracks`, scores by language.
            `parts` has what was read of each part.
        folder: Path of the set within a data folder.
        languages: Default language codes, without English. If empty, the default is the
            languages of the recipe's pairs, or, outside recipes, of the files.
        options: Other keyword arguments of `score` that users may set. If "part" is
            among them, a half of the set can be scored, see `score_set`.
        scores: Maps names of scores to names in a row of scores.json. By default, the
            primary score is stored there under the name of the set.
        label: Name of the set in reports; default `name`. A score whose name is the
            label in lower case gets the same name.
        similarity: Whether the set also compares sentences of one language. It is then
            used for English-only teachers too, with `languages=[]`; and
            `score(..., within=False)` computes only `cross_lingual` and its tracks.
        others: Whether the other languages in the folder are scored, too: a recipe's
            rows then also have `<score>_others`, and tracks in `<score>_tracks`.

    Example:
        >>> def score(encoder, parts):
        ...     width = encoder.encode(parts["texts"]).shape[1]
        ...     return {"width": float(width), "primary": "width"}
        >>> def find(folder, languages, split):
        ...     read = lambda path: path.read_text().splitlines()
        ...     return {"texts": msd.evaluate.SetFile((folder / "a.txt",), read)}
        >>> msd.evaluate.SETS["width"] = msd.evaluate.EvaluationSet(
        ...     name="width", splits=("test",), find=find, score=score)
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("A text.")
        >>> msd.evaluate.score_set(msd.testing.tiny_encoder(), "width", ".")["width"]
        16.0
        >>> del msd.evaluate.SETS["width"]
    """

    name: str
    splits: tuple[str, ...]
    find: Callable[..., Mapping[str, SetFile]]
    score: Callable[..., dict[str, Any]]
    folder: str = ""
    languages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    scores: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    similarity: bool = False
    others: bool = False


def _in(module: str, name: str) -> OnUse:
    return OnUse(f"keras_msd.evaluate.{module}", name)


def _find_aligned(
    folder: str | Path, languages: Iterable[str] | None, split: str, dataset: str
) -> dict[str, SetFile]:
    from keras_msd.evaluate.similarity import find_aligned

    hint = "" if dataset in SETS else unknown_set(dataset)
    return find_aligned(folder, languages, split, dataset, hint)


SIMILARITY: dict[str, Any] = {
    "folder": "sts",
    "scores": {key: key for key in ("cross_lingual", "monolingual", "language_bias")},
    "similarity": True,
}


def aligned_set(name: str) -> EvaluationSet:
    """Return the set of the row-aligned files `<name>.<split>.<xx>.tsv.gz`."""
    return EvaluationSet(
        name=name,
        splits=("dev", "test", "train"),
        find=partial(_find_aligned, dataset=name),
        score=_in("similarity", "sts_aligned"),
        options=("part",),
        **SIMILARITY,
    )


SETS = {
    "stsb": aligned_set("stsb"),
    "sts2017-extended": EvaluationSet(
        name="sts2017-extended",
        splits=("test",),
        find=_in("similarity", "find_sts2017"),
        score=_in("similarity", "score_sts2017"),
        **SIMILARITY,
    ),
    "sick": aligned_set("sick"),
    "examples": aligned_set("examples"),
    "tatoeba": EvaluationSet(
        name="tatoeba",
        splits=("test",),
        find=_in("translations", "find_tatoeba"),
        score=_in("translations", "retrieval_languages"),
        folder="tatoeba",
        options=("part",),
        scores={"precision": "retrieval"},
        label="Tatoeba",
        others=True,
    ),
    "held-out": EvaluationSet(
        name="held-out",
        splits=("dev",),
        find=_in("translations", "find_held_out"),
        score=partial(_in("translations", "retrieval_languages"), match="text"),
        folder="parallel/dev",
        options=("part",),
        scores={"precision": "held_out"},
        label="Held out",
    ),
    "un": EvaluationSet(
        name="un",
        splits=("all",),
        find=_in("translations", "find_un"),
        score=_in("translations", "score_un"),
        folder="un",
        languages=("es", "fr", "ru", "zh"),
        options=("queries",),
        scores={"precision": "un"},
        label="UN",
    ),
    "bucc2018": EvaluationSet(
        name="bucc2018",
        splits=("train", "sample", "test"),
        find=_in("bitext", "find_bucc"),
        score=_in("bitext", "score_bucc"),
        folder="bucc2018",
        languages=("de", "fr", "ru", "zh"),
        options=("margin",),
        scores={"f1": "bucc"},
        label="BUCC",
    ),
    "retrieval": EvaluationSet(
        name="retrieval",
        splits=("test", "dev", "train"),
        find=_in("passages", "find_passages"),
        score=_in("passages", "score_passages"),
        folder="retrieval",
        options=("part",),
        scores={"ndcg_at_10": "ndcg_at_10"},
        label="Retrieval of passages",
    ),
}


def evaluation_set(name: str) -> EvaluationSet:
    """Return a set by name; a name that is not in `SETS` means row-aligned files."""
    return SETS.get(name) or aligned_set(name)


def unknown_set(name: str) -> str:
    """Return the error message for a name that is not in `SETS`."""
    rule = f"`{name}` is not one of the known sets: {', '.join(SETS)}."
    return f"{rule} {nearest(name, SETS)}".rstrip()


def read_sts_folder(
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str = "dev",
    dataset: str = "stsb",
) -> dict[str, list["GradedPair"]]:
    r"""Read row-aligned similarity files: rows by language code, English first.

    Args:
        folder: Folder with `<dataset>.<split>.<xx>.tsv.gz` at any depth, with the
            columns score, sentence 1, sentence 2.
        languages: Two-letter codes; None for all languages in the folder. English is
            always read.
        split: Such as `dev` or `test`.
        dataset: Name of the set, such as `stsb` or `sick`.

    Raises:
        InputError: A file is missing, damaged or incomplete.

    Example:
        >>> import gzip
        >>> with gzip.open("sick.test.en.tsv.gz", "wt") as file:
        ...     _ = file.write("5.0\tA cat.\tA cat!\n")
        >>> msd.evaluate.read_sts_folder(".", [], "test", "sick")
        {'en': [(5.0, 'A cat.', 'A cat!')]}
    """
    return read_parts(_find_aligned(folder, languages, split, dataset))


def score_labels() -> dict[str, str]:
    """Return the names of all scores in a row of scores.json, in order.

    Each name maps to its label in tables; empty if the label is the name itself.
    """
    labels: dict[str, str] = {}
    for record in SETS.values():
        names = list(record.scores.values()) or [record.name]
        for name in names:
            labels[name] = record.label if record.label.lower() == name else ""
        if record.others:
            first = labels[names[0]] or names[0]
            labels[f"{names[0]}_others"] = f"{first}, other languages"
    return labels


def check_split(record: EvaluationSet, split: str) -> None:
    """Raise `InputError` if a registered set has no such split."""
    if record.name in SETS and split not in record.splits:
        raise InputError(
            f"`{record.name}` has the splits {', '.join(record.splits)}. Received: "
            f"{split!r}."
        )


def check_part(record: EvaluationSet, part: str) -> None:
    """Raise `InputError` if there is no such part, or the set has no halves."""
    one_of(PARTS, part=part)
    if part != WHOLE and "part" not in record.options:
        halved = [name for name, known in SETS.items() if "part" in known.options]
        raise InputError(
            f"`{record.name}` has no halves; {', '.join(halved)} and row-aligned "
            f"similarity files do. Received: part={part!r}. Use part={WHOLE!r}, or "
            "another set."
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
    r"""Score an encoder on an evaluation set.

    The files of the set are found in `folder` by their names.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        name: A name in `SETS`; or your own name, such as `mine`, for row-aligned
            similarity files `<name>.<split>.<xx>.tsv.gz`.
        folder: The folder as downloaded, or a data folder.
        languages: Language codes. None for all languages in the folder; for STS 2017,
            BUCC and UN, for all languages of the set.
        split: Such as `dev` or `test`; None for the default split of the set.
        part: "all", or a half: "choose" to tune settings, "report" for scores that you
            publish. Row-aligned similarity files, Tatoeba, held-out pairs and
            retrieval sets have halves. The English sentences decide the half, and no
            sentence is scored in both. For Tatoeba and held-out pairs, half of the
            pairs are queries, and all sentences are candidates. For retrieval sets, the
            text of a query decides its half, and all passages are candidates.
        **options: For "bucc2018": `margin`, see `mine`. The best F1 of its split
            "train" sets the threshold. For "un": `queries`, the number of queries,
            evenly spread over the corpus.

    Returns:
        The scores, see the documentation of the set; for a half, also its name as
        `part`.

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
    return read_set(name, folder, languages, split, part, **options)(encoder)


def read_set(
    name: str,
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str | None = None,
    part: str = WHOLE,
    **options: Any,
) -> "Callable[[SentenceEncoder], dict[str, Any]]":
    """Read an evaluation set; return the function that scores an encoder on it.

    Arguments and errors as for `score_set`. So mistakes in files show before an encoder
    is loaded.
    """
    record = evaluation_set(name)
    if unknown := [key for key in options if key not in record.options]:
        known = ", ".join(f"`{key}`" for key in record.options)
        raise InputError(
            f"The options of `{name}` are: {known or 'none'}. Received: "
            f"{', '.join(unknown)}. Leave it out."
        )
    chosen = split or record.splits[0]
    check_split(record, chosen)
    codes = list(record.languages) or None if languages is None else list(languages)
    check_part(record, part)
    options |= named(part)
    parts = read_parts(record.find(Path(folder), codes, chosen))

    def score(encoder: "SentenceEncoder") -> dict[str, Any]:
        return {**record.score(encoder, parts, **options), **named(part)}

    return score
