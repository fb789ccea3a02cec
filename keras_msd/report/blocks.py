"""Pieces of a page that can be written as HTML and as Markdown, and the page."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from keras_msd.files import atomic_path

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem;
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: .35rem .75rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th:first-child, .text th, .text td { text-align: left; }
tbody th { font-weight: normal; }
tbody tr:nth-child(odd) { background: var(--soft); }
ol { margin: 0; padding-left: 1.25rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr;
  gap: .25rem 1rem; margin: .5rem 0; }
dt { font-weight: 600; }
dd { margin: 0; }
.grid { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0; max-width: 44rem; padding: .75rem;
  border: 1px solid var(--line); border-radius: .5rem; }
figcaption { font-weight: 600; }
figure svg { width: 100%; height: auto; }
.source, small { opacity: .7; font-size: .85rem; }
pre { overflow-x: auto; background: var(--soft); padding: .75rem; font-size: .85rem; }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; } }
"""


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
    # The policy makes the browser refuse anything that is not in this file.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
{body}</body>
</html>
"""


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
