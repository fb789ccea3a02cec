"""Pieces of a page as HTML, and the page itself."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from keras_msd.io.files import atomic_path

# Its policy makes the browser refuse anything that is not in this file.
PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


class Html(str):
    """Text that is HTML already, so that it is not escaped."""


def html(text: str) -> Html:
    """Return text as HTML: escaped, unless it is HTML."""
    return text if isinstance(text, Html) else Html(escape(text))


def heading(text: str, level: int = 2) -> Html:
    """Return a heading."""
    return Html(f"<h{level}>{html(text)}</h{level}>\n")


def paragraph(text: str) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{html(text)}</p>\n")


def items(texts: Iterable[str], kind: str = "ul") -> Html:
    """Return a list, by default without numbers."""
    return Html(f"<{kind}>{''.join(f'<li>{html(it)}</li>' for it in texts)}</{kind}>\n")


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False
) -> Html:
    """Return a table whose first column names the rows.

    Args:
        heads: Names of the columns.
        rows: The cells of each row.
        words: Whether all columns hold words, not numbers.
    """
    top = "".join(f"<th scope=col>{html(head)}</th>" for head in heads)
    body = "".join(
        f"<tr><th scope=row>{html(first)}</th>"
        + "".join(f"<td>{html(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    kind = "scroll text" if words else "scroll"
    return Html(
        f"<div class='{kind}' tabindex=0><table><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>\n"
    )


def picture(caption: str, svg: str) -> Html:
    """Return a plot under its caption."""
    text = escape(caption)
    return Html(
        f"<figure role=img aria-label='{text}'><figcaption>{text}</figcaption>"
        f"{svg}</figure>\n"
    )


def grid(pictures: Iterable[str]) -> Html:
    """Return pictures side by side where there is room."""
    return Html(f"<div class=grid>{''.join(pictures)}</div>\n")


def folded(title: str, parts: Iterable[str]) -> Html:
    """Return parts behind their title; nothing without any."""
    body = "".join(parts)
    if not body:
        return Html("")
    summary = f"<summary><h2>{html(title)}</h2></summary>"
    return Html(f"<details>{summary}{body}</details>\n")


def write_page(path: Path, title: str, parts: Iterable[str]) -> Path:
    """Write a page that a browser lets fetch nothing, complete or not at all."""
    text = PAGE.substitute(title=escape(title), body="".join(parts))
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
