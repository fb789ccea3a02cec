"""TMX, the exchange format of translation memories, read as a stream."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import DirtyRows, is_english
from keras_msd.data.readers.xml_units import FORBIDDEN, text_of, units

NAMED = 100  # languages that a message names
REPAIR = "It is no translation memory as tools write it: export it again."
CODES = {"bpt", "ept", "it", "ph", "ut"}  # elements that hold markup, not text

Unit = list[tuple[str, str]]  # (language code, text) of each variant


def read(
    path: Path, language: str, source: str = ENGLISH, dirty: DirtyRows | None = None
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every unit that has both languages.

    English of any country counts (`en-US`); so does any country's variant of another
    language, unless its code itself names a country. A unit with several translations
    gives as many pairs.

    Args:
        path: A `.tmx` file.
        language: Code of the translations' language.
        source: Code of the other language.
        dirty: Which units with characters that XML forbids may be skipped. Without it
            they are kept, with a blank for each such character.

    Raises:
        InputError: As `xml_units.units`; a unit has forbidden characters and may not be
            skipped; or the file has no unit in both languages.
    """
    seen: set[str] = set()
    empty = True
    for line, unit in read_units(path):
        if len(seen) < NAMED:
            seen.update(code[:20] for code, _ in unit[:NAMED])
        firsts = [text for code, text in unit if is_language(code, source)]
        others = [text for code, text in unit if is_language(code, language)]
        for other in others if firsts else ():
            empty = False
            first = firsts[0]
            if dirty is not None and FORBIDDEN in first + other:
                dirty.skip(forbidden(path, line))
                continue
            yield first.replace(FORBIDDEN, " "), other.replace(FORBIDDEN, " ")
    if empty:
        raise InputError(
            f"`{path}` has no unit in `{source}` and `{language}`. Languages in it: "
            f"{', '.join(sorted(seen)) or 'none'}. Give one of them as `language`."
        )


def first_language(path: Path) -> str | None:
    """Return the language beside English of the first unit, None if not just one."""
    for _, unit in read_units(path):
        others = {code.split("-")[0] for code, _ in unit if not is_english(code)}
        return others.pop() if len(others) == 1 else None
    return None


def read_units(path: Path) -> Iterator[tuple[int, Unit]]:
    """Yield the line and the variants of each translation unit."""
    for unit in units(path, {"tu"}, REPAIR):
        variants = [(v, s) for v in unit.iter("tuv") for s in v.iter("seg")]
        texts = [(_code(v), text_of(s, CODES)) for v, s in variants]
        yield int(unit.attrib["line"]), texts


def forbidden(path: Path, line: int) -> InputError:
    """Return the error of a unit with characters that XML forbids."""
    return InputError(
        f"`{path}`, line {line}: a unit may hold only characters that XML allows. "
        "Received: a control character. Remove it, or skip such units: `dirty_rows`."
    )


def is_language(code: str, language: str) -> bool:
    """Tell whether a code in a file, in small letters, is of a language asked for."""
    if language == ENGLISH:
        return is_english(code)
    return language.lower().replace("_", "-") in (code, code.split("-")[0])


def _code(variant: Element) -> str:
    code = variant.get("xml:lang") or variant.get("lang") or ""
    return code.lower().replace("_", "-")
