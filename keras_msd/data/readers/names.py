"""What a file's name says: its format and the language beside English."""

import re
from pathlib import Path

from keras_msd.checks import InputError

SUFFIXES = {".tsv": "tsv", ".tmx": "tmx", ".jsonl": "jsonl", ".ndjson": "jsonl"}
SUFFIXES |= {".po": "gettext", ".mo": "gettext"}
CODE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4}|-[A-Z][A-Za-z]{1,3})?"
PAIR = re.compile(rf"(?:^|[._-])({CODE})-({CODE})$")
NOT_LANGUAGES = {
    "csv", "gz", "ids", "log", "md", "mo", "po", "tmx", "tsv", "txt", "xml", "zip",
}  # fmt: skip


def is_english(code: str) -> bool:
    """Tell whether a language code is English of any country, such as `en-GB`."""
    return re.split("[-_]", code.lower())[0] in ("en", "eng")


def unpacked_name(path: Path) -> str:
    """Return the name without `.gz`."""
    return path.name.removesuffix(".gz")


def format_of(path: Path) -> str | None:
    """Return the reader's name for a file, None if no reader knows its suffix."""
    name = Path(unpacked_name(path))
    if name.suffix in SUFFIXES:
        return SUFFIXES[name.suffix]
    code = name.suffix.removeprefix(".")
    if not re.fullmatch(CODE, code) or code in NOT_LANGUAGES:
        return None
    # Any two or three letters can be a language: only a file in English beside it
    # makes the two a corpus.
    return "moses" if is_english(code) or moses_english(path) else None


def language_of(path: Path) -> str | None:
    """Return the code in `<corpus>.en-<xx>.<suffix>` or `<corpus>.<xx>-en.<suffix>`."""
    match = PAIR.search(Path(unpacked_name(path)).stem)
    if match is None:
        return None
    others = [code for code in match.groups() if not is_english(code)]
    return others[0] if len(others) == 1 else None


def english_comes_second(path: Path) -> bool:
    """Tell whether a name such as `<corpus>.<xx>-en.tsv` puts English second.

    In `tatoeba.<xxx>-eng.tsv.gz`, the set's own name, the order says nothing.
    """
    match = PAIR.search(Path(unpacked_name(path)).stem)
    return match is not None and re.split("[-_]", match[2])[0] == "en"


def _sibling(path: Path, code: str) -> Path | None:
    stem = Path(unpacked_name(path)).stem
    for name in (f"{stem}.{code}", f"{stem}.{code}.gz"):
        if (path.parent / name).is_file():
            return path.parent / name
    return None


def moses_english(path: Path) -> Path | None:
    """Return the English file beside `x.<language>`, None if there is none."""
    if is_english(Path(unpacked_name(path)).suffix[1:]):
        return path
    return _sibling(path, "en")


def moses_languages(english: Path) -> list[str]:
    """Return the codes of the files that lie beside `x.en`, sorted."""
    stem = Path(unpacked_name(english)).stem
    found = set()
    for path in english.parent.iterdir():
        name = Path(unpacked_name(path))
        code = name.suffix.removeprefix(".")
        if name.stem == stem and re.fullmatch(CODE, code):
            found.add(code)
    return sorted(code for code in found - NOT_LANGUAGES if not is_english(code))


def moses_partner(english: Path, language: str) -> Path:
    """Return the file that holds the translations of `x.en`.

    Raises:
        InputError: There is none.
    """
    other = _sibling(english, language)
    if other is None:
        stem = Path(unpacked_name(english)).stem
        raise InputError(
            f"`{english}` needs the file `{stem}.{language}` or `{stem}.{language}.gz` "
            "beside it. Received: neither. Put both files in one folder."
        )
    return other
