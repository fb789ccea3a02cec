"""Names of columns: which two columns of a table have the texts of a pair."""

import re
from collections.abc import Sequence
from functools import lru_cache

from keras_msd.data.languages import code_of, code_of_name, same_language

SOURCE, TARGET, TEXT = "source", "target", "text"
# What a column's name says of its content. `text` is a source beside a translation.
ROLES = {
    **dict.fromkeys(("source", "src", "original"), SOURCE),
    **dict.fromkeys(("target", "tgt", "trg", "translation", "translated"), TARGET),
    **dict.fromkeys(("non english", "nonenglish"), TARGET),
    **dict.fromkeys(("text", "sentence", "phrase"), TEXT),
}
# Names of columns that do not say which of both texts they have.
OTHERS = (
    *("anchor", "positive", "negative", "query", "document", "question", "answer"),
    *("premise", "hypothesis", "input", "output", "prompt", "response", "msgid"),
    *("msgstr", "native", "foreign"),
)
ROLES |= {name: name for name in OTHERS}
COUNTED = re.compile(r"(?:(?:col|column|field|lang|language|var)\s?)?\d")
NUMBERED = re.compile(r"(?:text|sentence|phrase|sent)\s?([ab12])")
# Beside the name of a language or a role, these words say nothing more.
FILLERS = {
    *("text", "texts", "sentence", "sentences", "segment", "string", "phrase"),
    *("language", "lang", "column", "side", "seg", "sent"),
    *("simplified", "traditional", "brazilian", "brazil", "british", "american"),
    *("us", "uk", "european"),
}
CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")
BETWEEN = re.compile(r"[\s_\-./:#]+")


@lru_cache(maxsize=256)
def text_columns(
    names: tuple[str, ...], languages: tuple[str, str]
) -> tuple[str, str] | None:
    """Return the names of the columns of sources and translations.

    A column has the code or the name of its language, or says that it is the source or
    the target. In some corpora, `source` is the origin of a line, so languages come
    first. None if a table has no such columns.

    Args:
        names: Names of all columns.
        languages: Codes of the sources and of the translations.

    Example:
        >>> from keras_msd.data.readers.columns import text_columns
        >>> text_columns(("id", "Turkish", "English"), ("en", "tr"))
        ('English', 'Turkish')
    """
    source, target = languages
    second = _column(names, target, (TARGET,))
    first = _column(names, source, (SOURCE, TEXT) if second else (SOURCE,))
    return (first, second) if first and second and first != second else None


def _column(names: Sequence[str], code: str, roles: Sequence[str]) -> str | None:
    exact = [name for name in names if name.strip().casefold() == code.casefold()]
    kinds = {name: kind(name) for name in names}
    of_language = [
        name for name, known in kinds.items() if known and same_language(known, code)
    ]
    of_role = [name for role in roles for name in names if kinds[name] == role]
    found = [*exact, *of_language, *of_role]
    # `id` is the code of Indonesian, and in most tables the number of a row.
    return min(found, key=lambda name: name.casefold() == "id", default=None)


def is_header(names: Sequence[str], languages: tuple[str, str]) -> bool:
    """Tell whether the first line of a table has names of columns, not a pair.

    Two columns at least must have names of different kinds. Codes such as `it` and `no`
    are also words, so they count only if they are codes of these languages, or if
    another column is English.
    """
    if all(COUNTED.fullmatch(_words(name)) for name in names):
        return len({*names}) > 1
    english = any(kind(name) == "en" for name in names)
    kinds = set()
    for name in names:
        known = kind(name)
        own = any(same_language(known, code) for code in languages) if known else False
        if known and (own or english or not code_of(name)):
            kinds.add(known)
    return len(kinds) > 1


@lru_cache(maxsize=1024)
def kind(name: str) -> str | None:
    """Return what a column's name says: the code of a language, or a role.

    Example:
        >>> from keras_msd.data.readers.columns import kind
        >>> kind("English (US)"), kind("de_DE"), kind("sourceText"), kind("A house.")
        ('en', 'de', 'source', None)
        >>> kind("German translation"), kind("query")
        ('de', 'query')
    """
    plain = re.sub(r"\(.*?\)", " ", name.strip().strip("\"'"))
    if code := code_of(plain):
        return code
    whole = _words(plain)
    if match := NUMBERED.fullmatch(whole):
        return f"text {match[1]}"
    rest = " ".join(word for word in whole.split() if word not in FILLERS)
    bare = " ".join(word for word in rest.split() if word not in ROLES)
    return (
        ROLES.get(whole)
        or code_of_name(whole)
        or ROLES.get(rest)
        or code_of_name(rest)
        or code_of_name(bare)
        or (code_of(rest) if rest != whole else None)
    )


def _words(name: str) -> str:
    words = BETWEEN.split(CAMEL.sub(" ", name.strip("\"'")).casefold())
    return " ".join(word for word in words if word)
