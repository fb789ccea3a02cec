"""Pieces of a page that can be written as HTML and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    text: str
    level: int = 2

    def html(self) -> str:
        """Return HTML."""
        return f"<h{self.level}>{escape(self.text)}</h{self.level}>\n"

    def markdown(self) -> str:
        """Return Markdown."""
        return f"{'#' * self.level} {_plain(self.text)}\n"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def html(self) -> str:
        """Return HTML."""
        return f"<p>{escape(self.text)}</p>\n"

    def markdown(self) -> str:
        """Return Markdown."""
        return f"{_plain(self.text)}\n"


@dataclass(frozen=True)
class Table:
    """A table; the first column names the rows, the last may be words."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False

    def html(self) -> str:
        """Return HTML."""
        top = "".join(f"<th scope=col>{escape(head)}</th>" for head in self.heads)
        body = "".join(
            f"<tr><th scope=row>{escape(row[0])}</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
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


@dataclass(frozen=True)
class Picture:
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


Block = Heading | Text | Table | Picture


def _plain(text: str) -> str:
    """Return text without what Markdown or a browser would take for markup."""
    return text.replace("<", "&lt;").replace("*", "\\*")
