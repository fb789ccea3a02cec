"""TMX and XLIFF: translation memories and what translation tools exchange.

Source: LISA, "TMX 1.4b Specification" (2005); OASIS, "XLIFF Version 1.2" (2008) and
"XLIFF Version 2.0" (2014).
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import is_english
from keras_msd.data.readers.xml_units import text_of, units

NAMED = 100  # languages that a message names
REPAIR = "It is no file as translation tools write it: export it again."
# Elements that hold or stand for markup; XLIFF's `g`, `pc` and `mrk` are around text.
TMX_CODES = {"bpt", "ept", "it", "ph", "ut"}
XLIFF_CODES = {"x", "bx", "ex", "bpt", "ept", "ph", "it", "sub"}
XLIFF_CODES |= {"sc", "ec", "sm", "em", "cp"}
# What is not translated yet; the target may be a copy of the source.
UNTRANSLATED = {"new", "needs-translation", "initial"}

Unit = list[tuple[str, str]]  # (language code, text) of each variant
Row = tuple[str, str, str, str]  # both languages, source, target


def read_tmx(
    path: Path, language: str, source: str = ENGLISH
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every unit that has both languages.

    English of any country counts (`en-US`); so does any country's variant of another
    language, unless its code itself names a country. A unit with several translations
    gives as many pairs.

    Args:
        path: A `.tmx` file.
        language: Code of the translations' language.
        source: Code of the other language.

    Raises:
        InputError: As `xml_units.units`, or the file has no unit in both languages.
    """
    seen, empty = set[str](), True
    for unit in _tmx_units(path):
        if len(seen) < NAMED:
            seen.update(code[:20] for code, _ in unit[:NAMED])
        firsts = [text for code, text in unit if _is_language(code, source)]
        others = [text for code, text in unit if _is_language(code, language)]
        for other in others if firsts else ():
            empty = False
            yield firsts[0], other
    if empty:
        raise InputError(
            f"`{path}` has no unit in `{source}` and `{language}`. Languages in it: "
            f"{', '.join(sorted(seen)) or 'none'}. Give one of them as `language`."
        )


def tmx_languages(path: Path) -> tuple[None, str | None]:
    """Return the language beside English of the first unit, None if not just one."""
    unit = next(_tmx_units(path), [])
    others = {code.split("-")[0] for code, _ in unit if not is_english(code)}
    return None, others.pop() if len(others) == 1 else None


def _tmx_units(path: Path) -> Iterator[Unit]:
    for unit in units(path, {"tu"}, REPAIR):
        variants = [(v, s) for v in unit.iter("tuv") for s in v.iter("seg")]
        yield [
            (_code(v, "xml:lang") or _code(v, "lang"), text_of(s, TMX_CODES))
            for v, s in variants
        ]


def read_xliff(
    path: Path, language: str, source: str = ENGLISH
) -> Iterator[tuple[str, str]]:
    """Yield source and target of every unit that is translated.

    Units that are not to be translated, or have the state `new`, `needs-translation`
    or `initial`, are passed over, and so are proposals (`alt-trans`, matches). A file
    of one language pair may name another region than asked for: `de` takes `de-AT`.

    Args:
        path: A `.xlf` or `.xliff` file.
        language: Code of the targets' language.
        source: Code of the sources' language.

    Raises:
        InputError: As `xml_units.units`; the file is no XLIFF 1.2 or 2.x, or no unit
            is translated between both languages.
    """
    seen, empty = set[str](), True
    for first, second, text, other in _xliff_rows(path):
        seen.add(f"{first or '?'}-{second or '?'}")
        if _is_language(first or source, source) and _is_language(second, language):
            empty = False
            yield text, other
    if empty:
        raise InputError(
            f"`{path}` has no unit that is translated from `{source}` to `{language}`. "
            f"Translated units in it: {', '.join(sorted(seen)) or 'none'}. Give "
            "`source_language` and `language` as the file has them."
        )


def xliff_languages(path: Path) -> tuple[str | None, str | None]:
    """Return the languages of source and target that the file itself names."""
    for head in units(path, (), REPAIR, ("xliff", "file")):
        first = head.get("srcLang") or head.get("source-language")
        second = head.get("trgLang") or head.get("target-language")
        if second:
            return first, second
    return None, None


def _xliff_rows(path: Path) -> Iterator[Row]:
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
        if element.get("translate") == "no":
            continue
        pieces = [element] if element.tag == "trans-unit" else []
        for piece in element.findall("segment") if element.tag == "unit" else pieces:
            source, target = piece.find("source"), piece.find("target")
            if source is None or target is None:
                continue
            if (target.get("state") or piece.get("state")) in UNTRANSLATED:
                continue
            code, segmented = _code(target, "xml:lang"), piece.find("seg-source")
            both = _segments(source if segmented is None else segmented, target)
            for text, translation in both:
                if text.strip() and translation.strip():
                    yield first, code or second, text, translation


def _segments(source: Element, target: Element) -> Iterator[tuple[str, str]]:
    """Yield the texts of both, one pair for each segment that both have."""
    left, right = (
        {it.get("mid"): it for it in side.iter("mrk") if it.get("mtype") == "seg"}
        for side in (source, target)
    )
    if not left or left.keys() != right.keys():
        left, right = {None: source}, {None: target}
    for mid, part in left.items():
        yield text_of(part, XLIFF_CODES), text_of(right[mid], XLIFF_CODES)


def _is_language(code: str, language: str) -> bool:
    """Tell whether a code in a file, in small letters, is of a language asked for."""
    if language == ENGLISH:
        return is_english(code)
    return language.lower().replace("_", "-") in (code, code.split("-")[0])


def _code(element: Element, key: str) -> str:
    return element.get(key, "").lower().replace("_", "-")
