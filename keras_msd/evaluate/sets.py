"""The evaluation sets by name, as the command line takes them."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_folder, nearest
from keras_msd.evaluate.bucc import bucc_folder
from keras_msd.evaluate.retrieval import retrieval_folder
from keras_msd.evaluate.sts import PIVOT, sts_folder
from keras_msd.evaluate.sts2017 import SEMEVAL_TRACKS, TRACKS, sts2017, tracks_of
from keras_msd.evaluate.stsb_multilingual import stsb_multilingual
from keras_msd.evaluate.un import un_folder
from keras_msd.evaluate.vectors import SentenceEncoder

BUCC_LANGUAGES = ["de", "fr", "ru", "zh"]
UN_LANGUAGES = ["es", "fr", "ru", "zh"]

Codes = list[str] | None


class EvaluationSet(NamedTuple):
    """A set that has a name.

    Attributes:
        words: What it is.
        splits: Its parts, the one that is scored by default first.
        score: Maps encoder, folder, languages (None for all), part and options to
            scores.
        options: What the set's own function takes besides.
    """

    words: str
    splits: tuple[str, ...]
    score: Callable[..., dict[str, Any]]
    options: tuple[str, ...] = ()


def _sts2017(tracks: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    def score(encoder: SentenceEncoder, folder: Path, codes: Codes, split: str) -> Any:
        wanted = tracks if codes is None else tracks_of(codes, tracks)
        return sts2017(encoder, folder, wanted)

    return score


def _tatoeba(encoder: SentenceEncoder, folder: Path, codes: Codes, split: str) -> Any:
    return retrieval_folder(encoder, folder, codes)


def _bucc(
    encoder: SentenceEncoder, folder: Path, codes: Codes, split: str, **options: Any
) -> Any:
    wanted = BUCC_LANGUAGES if codes is None else codes
    return bucc_folder(encoder, folder, wanted, reported_on=split, **options)


def _un(
    encoder: SentenceEncoder, folder: Path, codes: Codes, split: str, **options: Any
) -> Any:
    wanted = UN_LANGUAGES if codes is None else codes
    return un_folder(encoder, folder, wanted, **options)


SETS: dict[str, EvaluationSet] = {
    "sts2017": EvaluationSet(
        "STS 2017, six tracks", ("test",), _sts2017(SEMEVAL_TRACKS)
    ),
    "sts2017-extended": EvaluationSet(
        "STS 2017, ten tracks", ("test",), _sts2017(TRACKS)
    ),
    "stsb-multi-mt": EvaluationSet(
        "STS benchmark in several languages",
        ("dev", "test", "train"),
        stsb_multilingual,
    ),
    "tatoeba": EvaluationSet("Tatoeba, precision at 1", ("test",), _tatoeba),
    "bucc2018": EvaluationSet(
        "BUCC 2018, F1; the threshold is that of the training part",
        ("train", "sample", "test"),
        _bucc,
        ("tuned_on", "margin", "engine"),
    ),
    "un": EvaluationSet(
        "United Nations, precision at 1", ("all",), _un, ("queries", "engine")
    ),
}


def score_set(
    encoder: SentenceEncoder,
    name: str,
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Score an encoder on a set that is found in a folder by the names of its files.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        name: One of `SETS`, or the beginning of row-aligned similarity files such as
            `sick`: `<name>.<split>.<xx>.tsv.gz`, in the folder or in its `sts/`.
        folder: The folder as downloaded, or a data folder.
        languages: Codes; None for all: those of the folder, or of the set if it is
            STS 2017, BUCC or UN.
        split: Part of the set; None for its usual one.
        **options: `tuned_on`, `margin` and `engine` as `bucc_folder` takes them;
            `queries` and `engine` as `un_folder` does.

    Returns:
        The scores, as the set's own function gives them.

    Raises:
        InputError: The set has no such part or option, or files are missing or damaged.
    """
    folder = Path(folder)
    codes = None if languages is None else list(languages)
    known = SETS[name].options if name in SETS else ()
    if unknown := [key for key in options if key not in known]:
        raise InputError(
            f"`{name}` takes {', '.join(known) or 'no options'}. Received: "
            f"{', '.join(unknown)}. Leave it out."
        )
    if name not in SETS:
        return _aligned(encoder, name, folder, codes, split or "dev")
    chosen = SETS[name]
    if split is not None and split not in chosen.splits:
        raise InputError(
            f"`{name}` has the parts {', '.join(chosen.splits)}. Received: {split!r}."
        )
    return chosen.score(encoder, folder, codes, split or chosen.splits[0], **options)


def _aligned(
    encoder: SentenceEncoder, name: str, folder: Path, codes: Codes, split: str
) -> dict[str, Any]:
    folder = existing_folder(folder, "data folder")
    if (folder / "sts").is_dir():
        folder = folder / "sts"
    pattern = re.compile(rf"{re.escape(name)}\.{re.escape(split)}\.(\w+)\.tsv\.gz")
    matches = map(pattern.fullmatch, sorted(path.name for path in folder.iterdir()))
    found = [match[1] for match in matches if match]
    if not found:
        hint = nearest(name, SETS)
        raise InputError(
            f"`{folder}` has no file `{name}.{split}.{PIVOT}.tsv.gz`, and `{name}` is "
            f"no set of another layout: {', '.join(SETS)}. {hint}".rstrip()
        )
    return sts_folder(encoder, folder, found if codes is None else codes, split, name)
