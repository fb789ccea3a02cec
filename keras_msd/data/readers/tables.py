"""Tables of pairs: TSV, CSV, JSON Lines, parquet, rows in memory, and their columns."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file, explained, require, utf8
from keras_msd.data.languages import check_code, code_of, code_of_name, same_language
from keras_msd.data.pair import ENGLISH, Pair, Pairs
from keras_msd.data.readers import lines

UNKNOWN = "und"  # ISO 639-2: undetermined
CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
# A score, or the number of a sentence in Tatoeba's export.
NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
QUOTED = re.compile('"((?:[^"]|"")*)"')  # a field as CSV writes it
TITLES = 5  # lines that may stand before the names of columns
FIRST = 10  # lines of a TSV that tell whether all fields stand in quotes
FORM = '{"source": ..., "target": ...}'

Languages = tuple[str, str]  # codes of the sources and of the translations
Columns = Sequence[str] | None  # names, or numbers from 1, of both texts
Texts = Iterator[tuple[str, str] | InputError]
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


def parsed(
    records: Iterable[tuple[Any, Any]],
    parse: Callable[[Any, Any], tuple[str, str] | None],
) -> Texts:
    """Yield the texts of each record, or the error that `parse` raises for it.

    Args:
        records: The place of each record, and the record.
        parse: Function of both that returns the texts, or None to skip the record.
    """
    for place, record in records:
        try:
            texts: Any = parse(place, record)
        except InputError as error:
            texts = error
        if texts is not None:
            yield texts


def _below_names(path: Path, found: Texts, named: Callable[[], bool]) -> Texts:
    """Yield what was found in a table; raise `InputError` if it has names alone.

    Args:
        path: The table.
        found: Its texts.
        named: Tells, after the last of them, whether it has names of columns.
    """
    empty = True
    for texts in found:
        empty = False
        yield texts
    if empty and named():
        raise InputError(
            f"`{path}` must hold a pair. Received: names of columns alone. Give a file "
            "with pairs."
        )


def read_tsv(path: Path, languages: Languages, columns: Columns = None) -> Texts:
    """Yield source and translation of every line: columns between tabs.

    If there are more than two columns, those with numbers are skipped if two remain.
    Such numbers are scores, as in files of `keras-msd mine` and WikiMatrix, or sentence
    numbers, as in exports of Tatoeba. A first line with names of columns, as in CSV, is
    not a pair, nor is the same line again. Blank lines at the end are skipped.

    Quotes belong to the text, except where only a CSV writer puts them: around a field
    with doubled quotes inside, and around every field.

    Args:
        path: A `.tsv` file.
        languages: Codes of the sources and of the translations.
        columns: The numbers of both columns from 1, or their names in the first line.

    Raises:
        InputError: According to the file name, English is the second column, and no
            first line says otherwise; it has names of columns alone; or it cannot be
            read. Yielded instead of raised: it is not clear which two columns are the
            texts, or a line has more or fewer columns than the first.
    """
    rows = lines.without_blank_end(lines.raw_lines(path))
    first = list(islice(rows, FIRST))
    if lines.separator_of(_decoded(first[:1])):
        first = first[1:]
    quoted = _all_quoted(_decoded([row]) for row in first)
    names: Sequence[str] = ()
    texts: Sequence[str] = ()
    named = False  # whether it has names of columns

    def parse(number: int, data: bytes) -> tuple[str, str] | None:
        nonlocal names, texts, named
        line = lines.line_text(path, number, data, languages)
        where = f"`{path}`, line {number}"
        fields = _fields(line, quoted)
        if not names and len(fields) > 1:
            names, texts, header = _tsv_columns(fields, languages, columns, where)
            if header:
                named = True
                return None
            if columns is None and lines.english_comes_second(path):
                raise InputError(
                    f"`{path}`: the first column must be English, and the name says "
                    "that it is the second. If English is the first, rename the file "
                    f"to `<corpus>.en-{languages[1]}.tsv`; if not, say which column is "
                    'which: `columns=["2", "1"]` (`--columns 2,1`).'
                )
        count = len(names) or 2
        if len(fields) != count:
            form = "`{}` TAB `{}`".format(*languages) if count == 2 else "as the first"
            raise InputError(
                f"{where}: a line must have {count} columns, {form}. Received: "
                f"{len(fields)} column{'s' * (len(fields) > 1)}, {line!r:.80}. "
                f"{_mended(line, fields)}"
            )
        if named and [field.strip().strip('"') for field in fields] == names:
            return None  # where files were joined
        row = dict(zip(names, fields, strict=True))
        return pair_of(row, languages, where, texts)

    found = parsed(chain(first, rows), parse)
    yield from _below_names(path, found, lambda: named)


def _decoded(rows: Iterable[tuple[int, bytes]]) -> str:
    return "".join(data.decode(errors="replace").rstrip("\r\n") for _, data in rows)


def _fields(line: str, quoted: bool) -> list[str]:
    """Split a line at tabs; undo the quotes of CSV where they are not the text's."""
    if quoted:
        with suppress(csv.Error):
            [fields] = csv.reader([line], strict=True, delimiter="\t")
            return fields
    return [
        match[1].replace('""', '"')
        if (match := QUOTED.fullmatch(field)) and '""' in match[1]
        else field
        for field in line.split("\t")
    ]


def _all_quoted(first: Iterable[str]) -> bool:
    """Tell whether a CSV writer put quotes around all texts of these lines.

    A pair may stand in quotes itself, so a single line does not tell it, unless it has
    names of columns.
    """
    rows = [line.split("\t") for line in first]
    texts = [[it for it in row if it and not NUMBER.fullmatch(it)] for row in rows]
    if not all(row and all(map(QUOTED.fullmatch, row)) for row in texts):
        return False
    return len(rows) > 1 or bool(rows and len({*map(kind, rows[0])} - {None}) > 1)


def _mended(line: str, fields: Sequence[str]) -> str:
    if '"' in line:
        return (
            "Remove the line or the tabs inside its sentences. If fields stand in "
            'quotes, as pandas writes them, give `format="csv"` (`--format csv`), and '
            "a first line with the names of the columns."
        )
    if len(fields) > 1:
        return "Remove the line or the tabs inside its sentences."
    if "|||" in line:
        return "Put a tab in place of `|||`: sed 's/ *||| */\\t/'."
    other = max(lines.SEPARATORS, key=line.count)
    if other in line:
        first = f"write a first line such as `source{other}target`, and "
        if len({*map(kind, line.split(other))} - {None}) > 1:
            first = ""
        return (
            f"If {other!r} separates the columns, {first}give the file the suffix .csv "
            'or `format="csv"` (`--format csv`).'
        )
    return "Remove the line, or put a tab between a sentence and its translation."


def _tsv_columns(
    fields: list[str], languages: Languages, columns: Columns, where: str
) -> tuple[list[str], Sequence[str], bool]:
    """Return the names of a TSV's columns, those of texts, and if `fields` are names.

    Args:
        fields: The first line with two or more fields.
        languages: Codes of the sources and of the translations.
        columns: The text columns, if the user names them.
        where: The line, for messages.
    """
    names = [field.strip().strip('"') for field in fields]
    numbers = [str(number) for number in range(1, len(fields) + 1)]
    header = is_header(names, languages)
    if columns and all(column.isdecimal() for column in columns):
        return numbers, columns, header
    if columns:
        return names, columns, True
    if header:
        _check_names(where, names)
        if found := text_columns(tuple(names), languages):
            return names, found, True
        raise InputError(
            f"{where}: the names of the columns must be `source` and `target`, or "
            f"those of the languages `{languages[0]}` and `{languages[1]}`. Received: "
            f"{', '.join(map(repr, names))!s:.80}. Say which columns have the texts, "
            'as in `columns=["1", "2"]` (`--columns 1,2`), or correct the language.'
        )
    texts = [
        number
        for number, field in zip(numbers, fields, strict=True)
        if len(fields) == 2 or not NUMBER.fullmatch(field)
    ]
    if len(texts) != 2:
        raise InputError(
            f"{where}: a line must have 2 columns, `{languages[0]}` TAB "
            f"`{languages[1]}`, or two and numbers. Received: {len(fields)} columns, "
            f"of which {len(texts)} are no numbers, {fields!r:.80}. Say which are the "
            'texts: `columns=["1", "2"]`, or `--columns 1,2`.'
        )
    return numbers, texts, False


def read_csv(path: Path, languages: Languages, columns: Columns = None) -> Texts:
    """Yield source and translation of every row after the first, which has the names.

    A later row with the same names is skipped.
    The names are `source` and `target`, the codes or names of the languages, or others
    that `text_columns` knows; other columns are skipped.

    Args:
        path: A `.csv` file.
        languages: Codes of the sources and of the translations.
        columns: Other names of both columns, or their numbers from 1.

    Raises:
        InputError: There is no row, a row over several lines has more or fewer fields
            than the first, two columns have one name, or the file cannot be read.
            Yielded instead of raised: a column is not there, or a row on one line has
            more or fewer fields.
    """
    rows = _csv_rows(path, languages)
    _, names = next(rows)

    def parse(where: str, fields: list[str]) -> tuple[str, str] | None:
        if [field.strip() for field in fields] == names:  # where files were joined
            return None
        _check_width(where, fields, names)
        row = dict(zip(names, fields, strict=True))
        return pair_of(row, languages, where, columns)

    yield from _below_names(path, parsed(rows, parse), lambda: True)


def csv_language(path: Path) -> str | None:
    """Return the only column that can be a language other than English."""
    return language_of(next(_csv_rows(path))[1])


def _csv_rows(
    path: Path, languages: Sequence[str] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that are not empty; the first one has the names of columns."""
    read = lines.csv_rows(path, codes=languages)
    rows: Iterator[tuple[str, list[str]]] = (row for row in read if row[1])
    where, names = next(rows, (str(path), list[str]()))
    if not names:
        raise InputError(
            f"`{path}` must have a row with names of columns. Received: empty rows. "
            "Give a file with pairs."
        )
    names = [name.strip() for name in names]
    _check_names(where, names)
    if not any(map(kind, names)):
        later = list(islice(rows, TITLES))
        for place, fields in later:
            kinds = {*map(kind, fields)} - {None}
            if len(kinds) > 1 and not kinds.isdisjoint((ENGLISH, "source")):
                raise InputError(
                    f"{where}: the first line must have the names of the columns. "
                    f"Received: {', '.join(map(repr, names))!s:.80}; {place} has them. "
                    "Remove the lines before it."
                )
        rows = chain(later, rows)
    yield where, names
    for where, fields in rows:
        # An unclosed quote would swallow the next rows without a message.
        if any("\n" in field for field in fields):
            _check_width(where, fields, names)
        yield where, fields


def _check_names(where: str, names: Sequence[str]) -> None:
    twice = [name for name in names if names.count(name) > 1 and kind(name)]
    if twice:
        raise InputError(
            f"{where}: the names of the columns must differ. Received: {twice[0]!r} "
            f"{names.count(twice[0])} times. Rename or remove the columns that are not "
            "meant."
        )


def _check_width(where: str, fields: list[str], names: list[str]) -> None:
    if len(fields) != len(names):
        repair = "Put quotes around texts that hold the separator."
        if any(field[:1] == " " and field.lstrip()[:1] == '"' for field in fields):
            repair = "Remove the blanks before quotes."
        raise InputError(
            f"{where}: a row must have {len(names)} fields, as the first. Received: "
            f"{len(fields)}, {fields!r:.80}. {repair}"
        )


def read_jsonl(path: Path, languages: Languages, columns: Columns = None) -> Texts:
    """Yield source and translation of every line, a JSON object.

    A line is `{"source": ..., "target": ...}`, `{"<source>": ..., "<language>": ...}`,
    `{"english": ..., "non_english": ...}`, or `{"translation": {...}}` around one of
    them. Other keys are skipped, and so are blank lines at the end.

    Args:
        path: A `.jsonl`, `.ndjson` or `.json` file.
        languages: Codes of the sources and of the translations.
        columns: Other keys of both texts.

    Raises:
        InputError: The file cannot be read. Yielded instead of raised: a line is not
            such an object.
    """

    def parse(number: int, data: bytes) -> tuple[str, str]:
        text = lines.line_text(path, number, data, languages)
        row = json_object(path, number, text)
        return pair_of(row, languages, f"`{path}`, line {number}", columns)

    return parsed(lines.without_blank_end(lines.raw_lines(path)), parse)


def jsonl_language(path: Path) -> str | None:
    """Return the only key of line 1 that can be a language other than English."""
    return language_of(json_object(path, *next(lines.read_lines(path))))


def json_object(path: Path, number: int, line: str, form: str = FORM) -> dict[str, Any]:
    """Return the object of a line, or the object under its key `translation`.

    Args:
        path: The file, for messages.
        number: Number of the line, for messages.
        line: The line.
        form: An example of a valid line, for messages.

    Raises:
        InputError: The line is not a JSON object.
    """
    item, fault = None, None
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        fault = error
    if isinstance(item, dict) and (inner := _table_in(item)):
        raise InputError(
            f"`{path}`, line {number}: a line must be one pair. Received: all rows, "
            f"under {', '.join(map(repr, item))!s:.60}. Write one object a line, such "
            f"as {form}: {inner.format(path.name)}"
        )
    if not isinstance(item, dict):
        repair, start = f"Write it as {form}.", line.lstrip()[:1]
        if number == 1 and start in ("[", "{"):  # one value in many lines
            items = "'.[]'" if start == "[" else "."
            repair = (
                f"Write one object a line, such as {form}: jq -c {items} {path.name}"
            )
        raise InputError(
            f"`{path}`, line {number}: a line must be a JSON object. Received: "
            f"{line!r:.80}{f' ({fault})' if fault else ''}. {repair}"
        ) from fault
    return unwrapped(item)


def _table_in(item: Mapping[str, Any]) -> str | None:
    """Return how to write a table that a JSON object holds as lines, if it does."""
    for key, value in item.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return f"jq -c '.\"{key}\"[]' {{}}"
    columns = [value for value in item.values() if isinstance(value, list | dict)]
    if len(columns) > 1 and len(columns) == len(item):
        return 'table.to_json("{}", orient="records", lines=True) in pandas'
    return None


def read_parquet(path: Path, languages: Languages, columns: Columns = None) -> Texts:
    """Yield source and translation of every row.

    The columns have the names of `read_csv`; or the column `translation` has both.

    Args:
        path: A `.parquet` file.
        languages: Codes of the sources and of the translations.
        columns: Other names of both columns.

    Raises:
        InputError: pyarrow is not installed (extra `parquet`), or the file cannot be
            read. Yielded instead of raised: a row does not have such texts.
    """

    def parse(number: int, row: Any) -> tuple[str, str]:
        return pair_of(row, languages, f"`{path}`, row {number}", columns)

    return parsed(enumerate(parquet_rows(path), 1), parse)


def parquet_language(path: Path) -> str | None:
    """Return the only column that can be a language other than English."""
    return next(map(language_of, parquet_rows(path)), None)


def parquet_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a parquet file by the names of their columns."""
    existing_file(path, "parquet file")
    parquet = require("pyarrow.parquet", "parquet", "Reading parquet files")
    arrow = require("pyarrow", "parquet", "Reading parquet files")
    damage = f"`{path}` is no parquet file, or a damaged one. Write it again."
    with explained(damage, arrow.ArrowInvalid, OSError):
        with path.open("rb") as handle, parquet.ParquetFile(handle) as file:
            for batch in file.iter_batches():
                yield from map(unwrapped, batch.to_pylist())


def pairs_of_rows(
    rows: Any,
    language: str | None = None,
    source_language: str | None = None,
    columns: Columns = None,
) -> Pairs:
    """Return a corpus of rows in memory.

    Args:
        rows: A pandas `DataFrame`; or an iterable of mappings, such as rows of Hugging
            Face datasets, of `(source, target)` tuples or lists, or of `Pair`s.
        language: Code of the language of the translations, if it is not the name of a
            column. If neither is known, the code is "und".
        source_language: Code of the language of the sources, if it is not English.
        columns: Other names of both texts than those of `read_pairs`.

    Raises:
        InputError: A row is none of these, or there is no row.

    Example:
        >>> from keras_msd.data.readers.tables import pairs_of_rows
        >>> list(pairs_of_rows([{"en": "A house.", "de": "Ein Haus."}]))
        [Pair(source='A house.', target='Ein Haus.', language='de',
              source_language='en')]
    """
    check_code(language=language, source_language=source_language)
    if isinstance(rows, Mapping):
        raise InputError(
            "`pairs` must be rows. Received: a mapping with the keys "
            f"{', '.join(map(repr, rows))!s:.80}. Give one of its values, such as the "
            'split `pairs["train"]`.'
        )
    if hasattr(rows, "itertuples"):  # a data frame
        rows = rows.to_dict("records")
    source = source_language or ENGLISH
    return Pairs.from_list(
        _pair(row, language, source, f"`pairs`, row {number}", columns)
        for number, row in enumerate(rows, 1)
    )


def _pair(
    row: Any, language: str | None, source: str, where: str, columns: Columns
) -> Pair:
    if isinstance(row, Mapping):
        row = unwrapped(row)
        code = language or language_of(row) or UNKNOWN
        return Pair(*pair_of(row, (source, code), where, columns), code, source)
    if isinstance(row, tuple | list) and all(isinstance(text, str) for text in row):
        if len(row) == 2:
            first, second = row
            return Pair(first, second, language or UNKNOWN, source)
        if isinstance(row, tuple) and len(row) in (3, 4):
            return Pair(*row)
    raise InputError(
        f"{where}: a row must be (source, target) of two texts, or have them under "
        f"`source` and `target`. Received: {row!r:.80}."
    )


def pair_of(
    row: Mapping[str, Any], languages: Languages, where: str, columns: Columns = None
) -> tuple[str, str]:
    """Return source and translation of a row.

    Their names are those that `text_columns` finds. Other names are skipped.

    Args:
        row: The texts by name.
        languages: Codes of the source and of the translation.
        where: Place of the row, for messages.
        columns: Other names of both texts, or their numbers.

    Raises:
        InputError: The row does not have such texts.
    """
    if columns:
        keys: Sequence[str] = _named(columns, list(row), where)
    else:
        keys = text_columns(tuple(map(str, row)), languages) or (SOURCE, TARGET)
    first, second = (row.get(key) for key in keys)
    if not isinstance(first, str) or not isinstance(second, str):
        names = ", ".join(map(repr, row)) or "none"
        other = {key: row[key] for key in keys if key in row}
        values = f", with {other!r:.80}" if other else ""
        raise InputError(
            f"{where}: a row must have texts under `source` and `target`, or under "
            f"`{languages[0]}` and `{languages[1]}`. Received the keys: {names}"
            f'{values}. Name the columns, as in `columns=["text", "translation"]`, '
            "remove what has no text, or write a first line with the names if it is a "
            "pair."
        )
    utf8(first + second, where)
    return first, second


def _named(columns: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """Return the names of two columns, each given by name or by number from 1.

    Raises:
        InputError: The table does not have such a column.
    """
    found = []
    for column in columns:
        place = int(column) if column.isdecimal() and column not in names else 0
        if 1 <= place <= len(names):
            column = names[place - 1]
        if column not in names:
            same = (name for name in names if name.casefold() == column.casefold())
            column = next(same, column)
        if column not in names:
            raise InputError(
                f"{where}: `columns` must be among {', '.join(map(repr, names))}, or "
                f"numbers from 1. Received: {column!r}. Correct `columns`."
            )
        found.append(column)
    return found


def language_of(names: Iterable[Any]) -> str | None:
    """Return the language of the only column that can have another than English.

    Its name is a code, which is returned as it is, or the name of a language.
    """
    names = [name for name in names if isinstance(name, str)]
    kinds = {name: kind(name) for name in names}
    if "target" in kinds.values() or ENGLISH not in kinds.values():
        return None
    known = [name for name in names if code_of(name) or code_of(kinds[name] or "")]
    codes = known if len(names) == 2 else [it for it in known if it.lower() != "id"]
    others = [name for name in codes if not same_language(kinds[name] or "", ENGLISH)]
    if not others:  # languages without a code of two letters
        others = [name for name in names if CODE.fullmatch(name) and not kinds[name]]
    if len(others) != 1:
        return None
    [name] = others
    return name if CODE.fullmatch(name) else kinds[name]


def unwrapped(row: Mapping[str, Any]) -> Any:
    """Return the row, or the row in its column `translation`."""
    inner = row.get("translation")
    return inner if isinstance(inner, Mapping) else row


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
        >>> from keras_msd.data.readers.tables import text_columns
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
        >>> from keras_msd.data.readers.tables import kind
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
