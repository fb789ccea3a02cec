"""Retrieval of passages for queries, in the layout of BEIR."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, utf8
from keras_msd.data.readers.lines import read_lines, tabbed, unpacked
from keras_msd.data.readers.tables import json_object
from keras_msd.evaluate.measures import (
    SentenceEncoder,
    by_cosine,
    encoded,
    over_tracks,
    percent,
    side_of,
)
from keras_msd.evaluate.nearest import STREAMED, top_k
from keras_msd.evaluate.parts import (
    WHOLE,
    SetFile,
    finite,
    half_of,
    paths_below,
    rows_of,
    texts_by_id,
)

SHORT, LONG = 10, 100  # ranks
MEANS = (
    f"ndcg_at_{SHORT}",
    f"recall_at_{LONG}",
    f"mrr_at_{SHORT}",
    "precision_at_1",
)
QUERIES, PASSAGES, QRELS = KINDS = ("queries", "passages", "qrels")
FILE = re.compile(r"(?:(.+)\.)?(queries|passages|corpus|qrels)\.(?:tsv|jsonl)(?:\.gz)?")
OF_SPLIT = r"{}\.(?:tsv|jsonl)(?:\.gz)?"  # in the folder `qrels`
# Names of the fields of a line in BEIR.
TEXT_KEYS = ("_id", "text")
QREL_KEYS = ("query-id", "corpus-id", "score")
LAYOUT = (
    "A set is a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv, or the "
    "files <name>.<xx>.queries.tsv, <name>.<xx>.passages.tsv and <name>.<xx>.qrels.tsv "
    "(each also .jsonl, and .gz)."
)
Relevance = Mapping[str, Mapping[str, float]]


class PassageSet(NamedTuple):
    """Queries and passages by id; relevance by query and passage."""

    queries: dict[str, str]
    passages: dict[str, str]
    relevance: Relevance


def _scores(
    encoder: SentenceEncoder, given: PassageSet, asked: list[str]
) -> dict[str, Any]:
    """Score some queries of a set."""
    # The search prefers the lower row if cosines are equal.
    ids = sorted(given.passages, reverse=True)
    by_cosine(encoder, "Retrieval of passages")
    query = encoded(side_of(encoder, "query"), [given.queries[q] for q in asked])
    side = side_of(encoder, "document")
    texts = (given.passages[passage] for passage in ids)
    blocks = (encoded(side, block) for block in in_chunks(texts, STREAMED))
    _, found = top_k(query, blocks, LONG)
    rows = [
        _measures([ids[row] for row in rows], given.relevance[query])
        for rows, query in zip(found.tolist(), asked, strict=True)
    ]
    means = map(percent, np.mean(rows, axis=0))
    return {
        **dict(zip(MEANS, means, strict=True)),
        "queries": len(asked),
        "passages": len(ids),
        "primary": MEANS[0],
    }


def _measures(found: list[str], judged: Mapping[str, float]) -> tuple[float, ...]:
    """Return the scores of one query, in the order of `MEANS`.

    Args:
        found: The ids of the first `LONG` passages, best first.
        judged: Relevance by id; at least one is above 0.
    """
    gains = np.maximum([judged.get(passage, 0) for passage in found], 0)
    ideal = np.sort([value for value in judged.values() if value > 0])[::-1]
    hits = np.flatnonzero(gains[:SHORT])
    return (
        _discounted(gains) / _discounted(ideal),
        np.count_nonzero(gains) / len(ideal),
        1 / (1 + hits[0]) if hits.size else 0.0,
        float(gains[0] > 0),
    )


def _discounted(gains: np.ndarray) -> float:
    gains = gains[:SHORT]
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


def score_passages(
    encoder: SentenceEncoder, sets: Mapping[str, PassageSet], part: str = WHOLE
) -> dict[str, Any]:
    """Score how high the relevant passages of queries are ranked by cosine.

    The encoder's `encode_query` and `encode_document` encode the two sides, with their
    prompts; `encode`, if it has no such methods. The encoder cuts a passage that is
    longer than its `max_length`.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        sets: Sets by name, such as `mlqa.de`. Passages with a relevance above 0 are
            relevant, and a higher number is a higher grade; passages that are not
            listed are not relevant.
        part: "all", or the half of the queries to score: "choose" to tune settings, or
            "report". The text of a query decides its half. The candidates are always
            all passages.

    Returns:
        `{"ndcg_at_10", "recall_at_100", "mrr_at_10", "precision_at_1"}` x100, means
        over the queries of a set, then over the sets; `queries` and `passages`, sums;
        `tracks`, the nDCG@10 of each set; `primary`: "ndcg_at_10". The gain of a
        passage is its relevance. If cosines are equal to ten decimals, the passage
        whose id is later in alphabetical order comes first, as in trec_eval and
        pytrec_eval.

    Raises:
        InputError: A set has no query in the part, the vectors are not finite, or the
            encoder's are not compared by cosine.

    Source: Thakur et al. 2021 (BEIR); the measures are `ndcg_cut_10`, `recall_100`,
    `recip_rank` of the first ten and `P_1` of trec_eval.
    """
    single = {}
    for name, given in sets.items():
        asked = list(given.queries)
        halves = (half_of(text) for text in given.queries.values())
        rows = rows_of(part, halves, f"`{name}`")
        single[name] = _scores(encoder, given, [asked[row] for row in rows])
    return over_tracks(single, MEANS, [QUERIES, PASSAGES])


def find_passages(
    folder: str | Path, languages: Iterable[str] | None, split: str = "test"
) -> dict[str, SetFile]:
    """Return the files of each set of passages, by its name.

    A set is a folder in BEIR's layout, `corpus.jsonl`, `queries.jsonl` and
    `qrels/<split>.tsv`, whose name it has; or files `<name>.<xx>.queries.tsv`,
    `<name>.<xx>.passages.tsv` and `<name>.<xx>.qrels.tsv`, called `<name>.<xx>`. All
    may be `.tsv` or `.jsonl`, also `.gz`, at any depth.

    Args:
        folder: Folder to search.
        languages: Last parts of the names, such as `de` for `mlqa.de` and for a folder
            `de`; None for all sets.
        split: The split of BEIR's relevance. Other files have no splits.

    Raises:
        InputError: A file or a language is missing, or a set has one file twice.
    """
    there: dict[str, dict[str, Path]] = {}
    for path in paths_below(folder):
        if match := FILE.fullmatch(path.name):
            name, kind = match[1] or path.parent.resolve().name, match[2]
            kind = PASSAGES if kind == "corpus" else kind
        elif path.parent.name == QRELS and re.fullmatch(
            OF_SPLIT.format(re.escape(split)), path.name
        ):
            name, kind = path.parent.parent.resolve().name, QRELS
        else:
            continue
        other = there.setdefault(name, {}).setdefault(kind, path)
        if other != path:
            raise InputError(
                f"The set `{name}` must have one file of {kind}. Received: `{other}` "
                f"and `{path}`. Remove one, or give the folder of one of the sets."
            )
    codes = {name: name.rpartition(".")[2] for name in there}
    wanted = list(codes.values()) if languages is None else list(languages)
    absent = [code for code in wanted if code not in codes.values()]
    if absent or not wanted:
        what = ", ".join(absent) or "sets"
        raise InputError(
            f"`{folder}` must hold retrieval sets. Received: no files for {what}; "
            f"found {', '.join(there) or 'none'}. {LAYOUT}"
        )
    return {
        name: _set_file(folder, name, files, split)
        for name, files in there.items()
        if codes[name] in wanted
    }


def _set_file(
    folder: str | Path, name: str, files: Mapping[str, Path], split: str
) -> SetFile:
    if missing := [kind for kind in KINDS if kind not in files]:
        raise InputError(
            f"`{folder}`: the set `{name}` must have queries, passages and qrels (of "
            f"the split {split}). Received: no {', '.join(missing)}. {LAYOUT}"
        )
    queries, passages, qrels = (files[kind] for kind in KINDS)
    read = partial(_read_set, has_splits=qrels.parent.name == QRELS)
    return SetFile((queries, passages, qrels), read)


def _read_set(
    queries: Path, passages: Path, qrels: Path, has_splits: bool
) -> PassageSet:
    """Read the files of a set.

    Args:
        queries: A query a line.
        passages: A passage a line.
        qrels: A query, a passage and its relevance a line.
        has_splits: Whether the queries of other splits are in the file, too.

    Raises:
        InputError: A file cannot be read, an id is used twice or is unknown, or a query
            has no relevant passage.
    """
    asked, known = (texts_by_id(_rows(it, TEXT_KEYS)) for it in (queries, passages))
    relevance: dict[str, dict[str, float]] = {}
    first: dict[str, str] = {}
    for where, (query, passage, text) in _rows(qrels, QREL_KEYS):
        for name, one, ids in (("query", query, asked), ("passage", passage, known)):
            if one not in ids:
                path = queries if ids is asked else passages
                raise InputError(
                    f"{where}: the {name} must be in `{path}`. Received: {one!r:.60}. "
                    "Add its text there, or remove this line."
                )
        judged = relevance.setdefault(query, {})
        first.setdefault(query, where)
        if passage in judged:
            raise InputError(
                f"{where}: a passage may be judged once for a query. Received: "
                f"{query!r:.60} and {passage!r:.60} again. Remove one of the lines."
            )
        judged[passage] = finite(text, where, "a relevance")
    kept = [query for query in asked if query in relevance or not has_splits]
    for query in kept:
        if not any(value > 0 for value in relevance.get(query, {}).values()):
            where = first.get(query, f"`{qrels}`")
            raise InputError(
                f"{where}: the query {query!r:.60} must have a passage with a "
                "relevance above 0. Received: none. Add one, or remove the query."
            )
    return PassageSet({query: asked[query] for query in kept}, known, relevance)


def _rows(path: Path, keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line number, for messages; the value of each key) of each line.

    A first line of a TSV with the names of the fields is skipped.
    """
    if unpacked(path).suffix == ".jsonl":
        form = "{" + ", ".join(f'"{key}": ...' for key in keys) + "}"
        for number, line in read_lines(path):
            where, row = (
                f"`{path}`, line {number}",
                json_object(path, number, line, form),
            )
            yield where, [_value(row, key, where) for key in keys]
        return
    for place, (where, fields) in enumerate(
        tabbed(path, len(keys), " TAB ".join(keys))
    ):
        header = list(map(_plain, fields)) == list(map(_plain, keys)) and not place
        if not header:
            yield where, fields
    if header:
        raise InputError(
            f"`{path}` must hold {' TAB '.join(keys)}. Received: only a header. Add a "
            "line for each."
        )


def _plain(name: str) -> str:
    """Return the name of a field in one spelling: `_id` is `id`."""
    return name.lower().replace("_", "-").removeprefix("-")


def _value(row: Mapping[str, Any], key: str, where: str) -> str:
    """Return a value of a JSON object as text, a title before the text."""
    named = {_plain(name): value for name, value in row.items()}
    value = named.get(_plain(key))
    if not isinstance(value, str if key == "text" else str | int | float):
        raise InputError(
            f"{where}: `{key}` must be a text. Received: {value!r:.60}. Correct the "
            "line."
        )
    text = str(value)
    utf8(text, where)
    title = named.get("title") if key == "text" else None
    return f"{title} {text}" if title else text
