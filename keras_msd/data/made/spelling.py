"""Spelling that depends on neighbours: spaces, elision, capitals."""

import re

ELISION = re.compile(r"\b(d|n|qu)e (?=[aeiouéèêâîœ])", re.IGNORECASE)


def sentence(text: str, language: str) -> str:
    """Return `text` with single spaces and a capital first letter."""
    text = " ".join(text.split())
    for index, letter in enumerate(text):
        if letter.isalpha():
            capital = "İ" if language == "tr" and letter == "i" else letter.upper()
            return text[:index] + capital + text[index + 1 :]
    return text


def join(*parts: str) -> str:
    """Join the parts that are not empty with spaces."""
    return " ".join(part for part in parts if part)


def elide(text: str) -> str:
    """Return French text with `de`, `ne` and `que` shortened before a vowel."""
    return ELISION.sub(lambda found: f"{found.group(1)}'", text)
