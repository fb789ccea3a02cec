"""Cut files into chunks: lines, paragraphs, sections or records, cut at sentences."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, nearest, utf8
from keras_msd.data.readers import lines
from keras_msd.data.readers.tables import json_object

MARKDOWN = (".md", ".markdown")
RECORDS = (".csv", ".tsv", ".jsonl")  # one column or key is read
COUNTED = 1024  # passages whose tokens are counted in one call
DIGITS = 9  # maximum length of the number of a column; longer ones are names
FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
# A stop, closing quotes and brackets, and a blank; East Asian text has no blank.
END = re.compile(r"(?<=[.!?…।؟۔])[\"'”’»)\]]*\s+|(?<=[。！？])")


class Piece(NamedTuple):
    """A text and the line of its file, from 1, in which it begins.

    Example:
        >>> msd.index.Piece(3, "It rains.")
        Piece(line=3, text='It rains.')
    """

    line: int
    text: str


def read_passages(
    path: str | Path, column: str | None = None, paragraphs: bool = False
) -> Iterator[list[Piece]]:
    r"""Yield the passages of a file: pieces of text that belong together.

    Args:
        path: UTF-8, plain or gzip. In `.md` and `.markdown`, a passage is a heading and
            the text up to the next one; the pieces are its paragraphs, items and cells.
            Markup, code blocks and front matter are left out. In `.csv` and `.tsv`
            (without quoting), a passage is a row, in `.jsonl` and all other files a
            line.
        column: Name in the first row of `.csv` and `.tsv`, or number from 1 if no row
            has names; key in `.jsonl`. Not used for other files.
        paragraphs: Whether passages of plain text are the lines between empty ones.

    Raises:
        InputError: The file is missing, empty or damaged, a column does not exist, or
            `column` is needed.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("a.md").write_text("# Weather\n\nIt *rains*.\n")
        >>> list(msd.index.read_passages("a.md"))
        [[Piece(line=1, text='Weather'), Piece(line=3, text='It rains.')]]
    """
    path = Path(path)
    kind = _kind(path)
    found: Iterable[list[Piece]]
    if kind in RECORDS:
        if not column:
            raise InputError(
                f"`{path}`: it must be said which column or key holds the text. Give "
                "`--column`, or `column` in Python: a name, or in .csv and .tsv a "
                "number from 1 where no row has names."
            )
        values = _values if kind == ".jsonl" else _cells
        found = ([piece] for piece in values(path, column))
    elif kind in MARKDOWN:
        found = _sections(path)
    elif paragraphs:
        pieces = itertools.starmap(Piece, lines.read_lines(path))
        groups = itertools.groupby(pieces, key=lambda piece: bool(piece.text.strip()))
        found = ([_joined(list(group))] for filled, group in groups if filled)
    else:
        found = ([Piece(*line)] for line in lines.read_lines(path))
    for passage in found:
        stripped = (Piece(line, text.strip()) for line, text in passage)
        if filled := [piece for piece in stripped if piece.text]:
            yield filled


def way_of_reading(path: Path, column: str | None, paragraphs: bool) -> str:
    """Return a key of everything that decides how a file is split."""
    kind = _kind(path)
    if kind in RECORDS:
        return f"{kind} {column}"
    return MARKDOWN[0] if kind in MARKDOWN else f"text {paragraphs}"


def split(
    passages: Iterable[Sequence[Piece]],
    limit: int,
    count: Callable[[list[str]], list[int]],
) -> Iterator[Piece]:
    """Yield passages as chunks: whole if they fit, else as many sentences as fit.

    Args:
        passages: Passages of `read_passages`.
        limit: Maximum number of tokens of a chunk. A longer sentence is cut between
            words; a longer word stays one chunk.
        count: Function that returns the numbers of tokens of texts.

    Example:
        >>> passage = [msd.index.Piece(1, "It rains. The wind blows. It is cold.")]
        >>> def words(texts):
        ...     return [len(text.split()) for text in texts]
        >>> [chunk.text for chunk in msd.index.split([passage], 5, words)]
        ['It rains. The wind blows.', 'It is cold.']
    """
    for some in in_chunks(passages, COUNTED):
        whole = [_joined(passage) for passage in some]
        sizes = count([chunk.text for chunk in whole])
        for passage, chunk, size in zip(some, whole, sizes, strict=True):
            if size <= limit:
                yield chunk
            else:
                sentences = itertools.chain.from_iterable(map(_sentences, passage))
                yield from _packed(list(sentences), limit, count)


def _kind(path: Path) -> str:
    return lines.unpacked(path).suffix.lower()


def _packed(
    parts: list[Piece], limit: int, count: Callable[[list[str]], list[int]]
) -> Iterator[Piece]:
    held: list[Piece] = []
    room = limit
    for part, size in zip(parts, count([part.text for part in parts]), strict=True):
        if held and size > room:
            yield _joined(held)
            held, room = [], limit
        words = part.text.split()
        if size > limit and len(words) > 1:
            yield from _packed([Piece(part.line, it) for it in words], limit, count)
        else:
            held.append(part)
            room -= size
    if held:
        yield _joined(held)


def _joined(pieces: Sequence[Piece]) -> Piece:
    return Piece(pieces[0].line, " ".join(piece.text for piece in pieces))


def _sentences(piece: Piece) -> Iterator[Piece]:
    # A wrong end, as after an abbreviation, does little harm: sentences are joined.
    ends = [match.end() for match in END.finditer(piece.text)]
    for start, end in zip([0, *ends], [*ends, len(piece.text)], strict=True):
        if text := piece.text[start:end].strip():
            yield Piece(piece.line, text)


def _cells(path: Path, column: str) -> Iterator[Piece]:
    """Yield one column of a `.csv` or `.tsv` file."""
    rows = lines.tabbed(path) if _kind(path) == ".tsv" else lines.csv_rows(path)
    if column.isdecimal() and len(column) < DIGITS:
        place = int(column) - 1
    else:
        _, names = next(rows)
        if column not in names:
            raise InputError(
                f"`{path}` has no column {column!r:.60}. Its first row: "
                f"{', '.join(names):.200}. {nearest(column, names)}".rstrip()
            )
        place = names.index(column)
    for where, fields in rows:
        if not 0 <= place < len(fields):
            raise InputError(
                f"{where}: a row must have the column {column!r}. Received: "
                f"{len(fields)} fields. Columns count from 1; repair the row."
            )
        yield Piece(int(where.rpartition(" ")[2]), fields[place])


def _values(path: Path, key: str) -> Iterator[Piece]:
    """Yield the text under a key in every line of a `.jsonl` file."""
    for number, line in lines.read_lines(path):
        text = json_object(path, number, line, f'{{"{key}": "text"}}').get(key)
        if not isinstance(text, str):
            raise InputError(
                f"`{path}`, line {number}: there must be a text under {key!r:.60}. "
                f"Received: {line!r:.80}. Give another `--column`, or repair the line."
            )
        utf8(text, f"`{path}`, line {number}")
        yield Piece(number, text)


def _sections(path: Path) -> Iterator[list[Piece]]:
    """Yield the plain text between two headings of a Markdown file."""
    from markdown_it import MarkdownIt

    text = "\n".join([*lines.read_texts(path), ""])
    if front := FRONT_MATTER.match(text):
        text = "\n" * front[0].count("\n") + text[front.end() :]
    section: list[Piece] = []
    line = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = token.map[0] if token.map else line
        if token.type == "heading_open":
            yield section
            section = []
        elif token.type == "inline":
            parts = []
            for child in token.children or ():
                if child.type in ("softbreak", "hardbreak"):
                    parts.append(" ")
                elif child.type != "html_inline":
                    parts.append(child.content)
            section.append(Piece(line + 1, "".join(parts)))
    yield section
