"""TMX, the exchange format of translation memories, read as a stream."""

from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import open_bytes
from keras_msd.data.readers.names import is_english

BLOCK = 1 << 16  # bytes given to the parser at a time
CODES = {"bpt", "ept", "it", "ph", "ut"}  # elements that hold markup, not text

Unit = list[tuple[str, str]]  # (language code, text) of each variant


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other language) of every unit that has both.

    English of any country counts (`en-US`); so does any country's variant of
    `language`, unless `language` itself names a country. A unit with several
    translations gives as many pairs.

    Args:
        path: A `.tmx` or `.tmx.gz` file.
        language: Code of the language beside English.

    Raises:
        InputError: The file is no well-formed XML, declares entities (a few lines of
            which can expand to gigabytes), or has no unit in both languages.
    """
    seen: set[str] = set()
    found = False
    for unit in read_units(path):
        seen.update(code for code, _ in unit)
        english = [text for code, text in unit if is_english(code)]
        others = [text for code, text in unit if _matches(code, language)]
        for other in others if english else ():
            found = True
            yield english[0], other
    if not found:
        raise InputError(
            f"`{path}` has no unit in English and `{language}`. Languages in it: "
            f"{', '.join(sorted(seen)) or 'none'}. Give one of them as `language`."
        )


def first_language(path: Path) -> str | None:
    """Return the language beside English of the first unit, None if not just one."""
    for unit in read_units(path):
        others = {code.split("-")[0] for code, _ in unit if not is_english(code)}
        return others.pop() if len(others) == 1 else None
    return None


def _matches(code: str, language: str) -> bool:
    wanted = language.lower().replace("_", "-")
    return code == wanted or code.split("-")[0] == wanted


def read_units(path: Path) -> Iterator[Unit]:
    """Yield the variants of each translation unit; memory holds one block of units."""
    collector = _Collector(path)
    with open_bytes(path) as handle:
        ended = False
        while not ended:
            block = handle.read(BLOCK)
            ended = not block
            try:
                collector.parser.Parse(block, ended)
            except expat.ExpatError as error:
                raise InputError(
                    f"`{path}`, line {error.lineno}: the file must be well-formed XML. "
                    f"Received: {expat.ErrorString(error.code)}. Export it again."
                ) from error
            yield from collector.take()


class _Collector:
    """Gathers units from the parser's events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.units: list[Unit] = []
        self.unit: Unit = []
        self.language = ""
        self.text: list[str] | None = None
        self.inside_codes = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_entity

    def take(self) -> list[Unit]:
        units, self.units = self.units, []
        return units

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self.unit = []
        elif name == "tuv":
            code = attributes.get("xml:lang") or attributes.get("lang") or ""
            self.language = code.lower().replace("_", "-")
        elif name == "seg":
            self.text = []
        elif name in CODES:
            self.inside_codes += 1

    def _end(self, name: str) -> None:
        if name == "tu":
            self.units.append(self.unit)
        elif name == "seg" and self.text is not None:
            self.unit.append((self.language, "".join(self.text)))
            self.text = None
        elif name in CODES:
            self.inside_codes -= 1

    def _characters(self, data: str) -> None:
        if self.text is not None and not self.inside_codes:
            self.text.append(data)

    def _refuse_entity(self, name: str, *declaration: object) -> None:
        raise InputError(
            f"`{self.path}`, line {self.parser.CurrentLineNumber}: a TMX file may not "
            f"declare entities. Received: <!ENTITY {name} ...>. Remove the declaration "
            "and write the characters themselves."
        )
