"""Pieces of a page that can be written as HTML and as Markdown, and the page."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from keras_msd.files import atomic_path

# Its policy makes the browser refuse anything that is not in this file.
PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


class Html(str):
    """Text that is HTML already: it is not escaped, and for no Markdown."""


class Heading(NamedTuple):
    """A heading of level 1 to 3."""

    text: str
    level: int = 2

    def html(self) -> str:
        """Return HTML."""
        return f"<h{self.level}>{escape(self.text)}</h{self.level}>\n"

    def markdown(self) -> str:
        """Return Markdown."""
        return f"{'#' * self.level} {_plain(self.text)}\n"


class Text(NamedTuple):
    """A paragraph."""

    text: str

    def html(self) -> str:
        """Return HTML."""
        return f"<p>{escape(self.text)}</p>\n"

    def markdown(self) -> str:
        """Return Markdown."""
        return f"{_plain(self.text)}\n"


class Terms(NamedTuple):
    """Terms, each with what is said of it."""

    terms: Sequence[tuple[str, str]]

    def html(self) -> str:
        """Return HTML."""
        items = (f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in self.terms)
        return f"<dl>{''.join(items)}</dl>\n"

    def markdown(self) -> str:
        """Return Markdown."""
        return "".join(f"- {_plain(a)}: {_plain(b)}\n" for a, b in self.terms)


class Table(NamedTuple):
    """A table; the first column names the rows, the last may be words."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False

    def html(self) -> str:
        """Return HTML."""
        top = "".join(f"<th scope=col>{_html(head)}</th>" for head in self.heads)
        body = "".join(
            f"<tr><th scope=row>{_html(row[0])}</th>"
            + "".join(f"<td>{_html(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        kind = "scroll text" if self.words else "scroll"
        return (
            f"<div class='{kind}' tabindex=0><table><thead><tr>{top}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>\n"
        )

    def markdown(self) -> str:
        """Return Markdown."""
        side = "---" if self.words else "---:"
        lines = [self.heads, ["---", *[side] * (len(self.heads) - 1)], *self.rows]
        cells = [[_plain(cell).replace("|", "\\|") for cell in line] for line in lines]
        return "".join(f"| {' | '.join(line)} |\n" for line in cells)


class Picture(NamedTuple):
    """A plot as SVG text; Markdown has the numbers in the tables alone."""

    caption: str
    svg: str

    def html(self) -> str:
        """Return HTML."""
        text = escape(self.caption)
        return (
            f"<figure role=img aria-label='{text}'><figcaption>{text}</figcaption>"
            f"{self.svg}</figure>\n"
        )

    def markdown(self) -> str:
        """Return Markdown."""
        return f"Plot in report.html: {_plain(self.caption)}.\n"


Block = Heading | Text | Terms | Table | Picture


def section(title: str, blocks: Iterable[Block], source: str) -> str:
    """Return a section that names the file its numbers come from; none without any."""
    parts = list(blocks)
    body = "".join(block.html() for block in parts)
    if not parts:
        return ""
    if all(isinstance(block, Picture) for block in parts):
        body = f"<div class=grid>{body}</div>"
    return (
        f"<section><h2>{escape(title)}</h2>{body}"
        f"<p class=source>From {escape(source)}</p></section>\n"
    )


def whole_page(title: str, body: str) -> str:
    """Return a page that a browser lets fetch nothing, from a body that is HTML."""
    return PAGE.substitute(title=escape(title), body=body)


def write_page(path: Path, text: str) -> Path:
    """Write a page, complete or not at all, and return its path."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _html(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)


def _plain(text: str) -> str:
    """Return text without what Markdown or a browser would take for markup."""
    return text.replace("<", "&lt;").replace("*", "\\*")
