"""XLIFF 1.2 and 2.0: what translation tools exchange, read as a stream.

Source: OASIS, "XLIFF Version 1.2" (2008) and "XLIFF Version 2.0" (2014).
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import DirtyRows
from keras_msd.data.readers.records import check_keys
from keras_msd.data.readers.tmx import forbidden, is_language
from keras_msd.data.readers.xml_units import FORBIDDEN, text_of, units

REPAIR = "It is no XLIFF file as tools write it: export it again."
# Elements that hold or stand for markup; `g`, `pc` and `mrk` are around text.
CODES = {"x", "bx", "ex", "bpt", "ept", "ph", "it", "sub"}
CODES |= {"sc", "ec", "sm", "em", "cp"}
# What is not translated yet; the target may be a copy of the source.
UNTRANSLATED = {"new", "needs-translation", "initial"}

Row = tuple[int, str, str, str, str]  # line, both languages, source, target


def read(
    path: Path, language: str, source: str = ENGLISH, dirty: DirtyRows | None = None
) -> Iterator[tuple[str, str]]:
    """Yield source and target of every unit that is translated.

    Units that are not to be translated, or have the state `new`, `needs-translation`
    or `initial`, are passed over, and so are proposals (`alt-trans`, matches). A file
    of one language pair may name another region than asked for: `de` takes `de-AT`.

    Args:
        path: A `.xlf` or `.xliff` file.
        language: Code of the targets' language.
        source: Code of the sources' language.
        dirty: Which units with characters that XML forbids may be skipped. Without it
            they are kept, with a blank for each such character.

    Raises:
        InputError: As `xml_units.units`; the file is no XLIFF 1.2 or 2.x, a unit has
            forbidden characters and may not be skipped, or no unit is translated
            between both languages.
    """
    rows = ((text, other) for *_, text, other in _rows(path))
    check_keys(rows, source, path, "source")
    empty, seen = True, set[str]()
    for line, first, second, text, translation in _rows(path):
        seen.add(f"{first or '?'}-{second or '?'}")
        if not (is_language(first or source, source) and is_language(second, language)):
            continue
        empty = False
        if dirty is not None and FORBIDDEN in text + translation:
            dirty.skip(forbidden(path, line))
            continue
        yield text.replace(FORBIDDEN, " "), translation.replace(FORBIDDEN, " ")
    if empty:
        raise InputError(
            f"`{path}` has no unit that is translated from `{source}` to `{language}`. "
            f"Translated units in it: {', '.join(sorted(seen)) or 'none'}. Give "
            "`source_language` and `language` as the file has them."
        )


def languages(path: Path) -> tuple[str | None, str | None]:
    """Return the languages of source and target that the file itself names."""
    for head in units(path, (), REPAIR, ("xliff", "file")):
        first = head.get("srcLang") or head.get("source-language")
        second = head.get("trgLang") or head.get("target-language")
        if second:
            return first, second
    return None, None


def _rows(path: Path) -> Iterator[Row]:
    version = first = second = ""
    names, heads = ("trans-unit", "unit"), ("xliff", "file")
    for element in units(path, names, REPAIR, heads):
        if element.tag == "xliff":
            version = element.get("version", "")
            first, second = (_code(element, key) for key in ("srcLang", "trgLang"))
        if not version.startswith(("1.", "2.")):
            raise InputError(
                f"`{path}` must be XLIFF 1.2 or 2.0: `<xliff version=...>`. Received: "
                f"version {version!r:.20}. Export it again."
            )
        if element.tag == "file" and version.startswith("1."):
            keys = ("source-language", "target-language")
            first, second = (_code(element, key) for key in keys)
        pieces = [element] if element.tag == "trans-unit" else []
        if element.tag == "unit":
            pieces = element.findall("segment")
        if element.get("translate") == "no":
            continue
        for piece in pieces:
            source, target = piece.find("source"), piece.find("target")
            if source is None or target is None:
                continue
            state = target.get("state") or piece.get("state")
            code = _code(target, "xml:lang") or second
            segmented = piece.find("seg-source")
            both = _segments(source if segmented is None else segmented, target)
            for text, translation in both if state not in UNTRANSLATED else ():
                if text.strip() and translation.strip():
                    line = int(element.attrib["line"])
                    yield line, first, code, text, translation


def _segments(source: Element, target: Element) -> list[tuple[str, str]]:
    """Return the texts of both, one pair for each segment that both have."""
    marks = [
        {it.get("mid"): it for it in side.iter("mrk") if it.get("mtype") == "seg"}
        for side in (source, target)
    ]
    sides = [[source], [target]]
    if marks[0] and marks[0].keys() == marks[1].keys():
        sides = [list(marks[0].values()), [marks[1][mid] for mid in marks[0]]]
    texts = [[text_of(it, CODES) for it in side] for side in sides]
    return list(zip(*texts, strict=True))


def _code(element: Element, key: str) -> str:
    return element.get(key, "").lower().replace("_", "-")
