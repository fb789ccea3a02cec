"""Retrieval of translations: how often the nearest sentence is the right one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.arrays import in_chunks
from keras_msd.data.languages import three_letters
from keras_msd.data.pair import PairFile, language_pair, pair_code
from keras_msd.data.readers import moses_partner, moses_rows, read_pairs
from keras_msd.data.readers.lines import read_texts
from keras_msd.data.tables import first_of_each
from keras_msd.evaluate.measures import (
    SentenceEncoder,
    SentenceVectors,
    encoded,
    over_tracks,
    percent,
)
from keras_msd.evaluate.nearest import STREAMED, top_k
from keras_msd.evaluate.parts import (
    WHOLE,
    SetFile,
    check_parts,
    find_parts,
    half_of,
    read_parts,
    rows_of,
)
from keras_msd.io.files import text_hash

WAYS = ("precision", "source_to_target", "target_to_source")
# Languages whose files have another code than that of ISO 639-2.
CODES = {
    **{"fa": "pes", "lv": "lvs", "ms": "zsm", "sw": "swh"},
    **{"zh": "cmn", "zho": "cmn", "no": "nob"},
}
ROW, TEXT = MATCHES = ("row", "text")


def retrieval(
    encoder: SentenceEncoder, pairs: Iterable[Sequence[str]], match: str = ROW
) -> dict[str, Any]:
    """Score one language: precision at 1 of cosine search, in both directions.

    If several sentences are equally near, the first one is the answer.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        pairs: `(source, target)` or `Pair`; each pair is a sentence and its
            translation.
        match: When an answer is correct. "row": it is in the row of the query, as in
            LASER's similarity search and mteb's bitext mining. Only the first copy of a
            repeated sentence can be found, so use it for sets without repeated
            sentences, such as the Tatoeba test set. "text": it has the text of the
            query's translation, in any row, as in `TranslationEvaluator` of
            sentence-transformers since version 6.2.

    Returns:
        `{"precision": x100, "source_to_target":, "target_to_source":, "pairs": n,
        "primary": "precision"}`; `precision` is the mean of both directions.

    Raises:
        InputError: There is no pair, `match` is unknown, or the vectors are not finite.

    Source: Artetxe and Schwenk 2019 (the Tatoeba set), without a margin; "text" is
    `--textual` of LASER's similarity search.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> pairs = [("Tee", "Tee"), ("Radio", "Radio"), ("Wind", "Wind")]
        >>> msd.evaluate.retrieval(encoder, pairs)["precision"]
        100.0
        >>> shifted = zip("abc", "bca")
        >>> msd.evaluate.retrieval(encoder, shifted)["source_to_target"]
        0.0
    """
    scores = retrieval_languages(encoder, {"pairs": pairs}, match=match)
    del scores["tracks"]
    return scores


def retrieval_languages(
    encoder: SentenceEncoder,
    pairs: Mapping[str, Iterable[Sequence[str]]],
    part: str = WHOLE,
    match: str = ROW,
) -> dict[str, Any]:
    """Score the retrieval of translations in several languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`. Each distinct sentence
            of all languages is encoded once.
        pairs: Pairs by language code, English first; or by a code such as `de-fr`, for
            pairs without English.
        part: "all", or the half of the pairs to use as queries in both directions:
            "choose" to tune settings, or "report". The first sentence of a pair decides
            its half. The candidates are always all sentences.
        match: "row" or "text", see `retrieval`.

    Returns:
        The keys of `retrieval`. Scores are means over languages, and `pairs` is the
        number of pairs that were queries. `tracks` is the precision of each language.

    Raises:
        InputError: There is no language, or a language has no pair in the part.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> pairs = [("Tee", "Tee"), ("Radio", "Radio"), ("Wind", "Wind")]
        >>> languages = {"deu": pairs, "nld": pairs}
        >>> scores = msd.evaluate.retrieval_languages(encoder, languages)
        >>> scores["tracks"], scores["pairs"]
        ({'deu': 100.0, 'nld': 100.0}, 6)
    """
    checks.one_of(MATCHES, match=match)
    checks.at_least(1, languages=len(pairs))
    lists = {code: list(rows) for code, rows in pairs.items()}
    asked = {
        code: rows_of(part, (half_of(pair[0]) for pair in rows), f"`{code}`")
        for code, rows in sorted(lists.items())
    }
    texts = (text for rows in lists.values() for pair in rows for text in pair[:2])
    vectors_of = SentenceVectors(encoder.encode, texts)
    single = {
        code: _precision(vectors_of, lists[code], rows, match)
        for code, rows in asked.items()
    }
    return over_tracks(single, WAYS, ["pairs"])


def _precision(
    vectors_of: SentenceVectors,
    pairs: Sequence[Sequence[str]],
    asked: Sequence[int],
    match: str,
) -> dict[str, Any]:
    """Score the search for the other side of some pairs among all."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    vectors = [vectors_of(side) for side in sides]
    ways = []
    for query, other in ((0, 1), (1, 0)):
        _, rows = top_k(vectors[query][asked], vectors[other], 1)
        texts = sides[other] if match == TEXT else range(len(pairs))
        found = zip(rows[:, 0].tolist(), asked, strict=True)
        ways.append(percent(np.mean([texts[a] == texts[b] for a, b in found])))
    both = (round(sum(ways) / 2, 4), *ways)
    return {**dict(zip(WAYS, both, strict=True)), "pairs": len(asked)}


TATOEBA = (
    "the Tatoeba test set. Its files are `tatoeba.<xxx>-eng.tsv.gz` (see "
    "docs/corpora.md) or, as in LASER, `tatoeba.<xxx>-eng.<xxx>` with "
    "`tatoeba.<xxx>-eng.eng`; without English, `tatoeba.<xxx>-<yyy>.tsv.gz`. Add the "
    "missing files, or leave the languages out."
)


def read_tatoeba(
    folder: str | Path, languages: Iterable[str] | None = None
) -> dict[str, list[tuple[str, str]]]:
    r"""Read the Tatoeba test set: the pairs of each language.

    Args:
        folder: Folder with the files, at any depth.
        languages: Codes with three or two letters, such as `deu` or `de`; for pairs
            without English, such as `deu-fra` or `de-fr`. None for all languages in the
            folder (112 in LASER's set).

    Returns:
        Pairs (English, other language) by three-letter code. Pairs without English have
        a code such as `deu-fra` and the order of the file.

    Raises:
        InputError: A language is missing, its two sides differ in length, or a file is
            damaged.

    Source: Artetxe and Schwenk 2019, section 4.3.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("tatoeba.deu-eng.eng").write_text("Tea.\nWind.\n")
        >>> _ = Path("tatoeba.deu-eng.deu").write_text("Tee.\nWind.\n")
        >>> msd.evaluate.read_tatoeba(".", ["de"])
        {'deu': [('Tea.', 'Tee.'), ('Wind.', 'Wind.')]}
    """
    return read_parts(find_tatoeba(folder, languages))


def find_tatoeba(
    folder: str | Path, languages: Iterable[str] | None, split: str = "test"
) -> dict[str, SetFile]:
    """Return the files of some or all languages; raise an error if one is missing."""
    there = find_parts(folder, LAYOUTS)
    if languages is None:
        codes, ours = sorted(there) or ["every language"], ""
    else:
        codes = _three_letters(languages)
        ours = "" if any("-" in code for code in codes) else "tatoeba.{}-eng.tsv.gz"
    found = {}
    for code, file in check_parts(there, codes, TATOEBA, folder, ours).items():
        paths = file.paths
        if file.read is _read_laser:
            paths = *paths, moses_partner(paths[0], code)
        found[code] = SetFile(paths, file.read)
    return found


def _three_letters(languages: Iterable[str]) -> list[str]:
    names = three_letters() | CODES
    found = ("-".join(names.get(c, c) for c in code.split("-")) for code in languages)
    return list(dict.fromkeys(found))


def _read_table(path: Path) -> list[tuple[str, str]]:
    return _rows_of(read_pairs(path).files)


def _read_laser(english: Path, other: Path) -> list[tuple[str, str]]:
    return list(moses_rows(english, other))


LAYOUTS: dict[str, Callable[..., Any]] = {
    r"tatoeba\.([a-z]{3})-eng\.tsv\.gz": _read_table,
    r"tatoeba\.([a-z]{3}-(?!eng)[a-z]{3})\.tsv\.gz": _read_table,
    r"tatoeba\.([a-z]{3})-eng\.eng": _read_laser,
}


UN = {r"UNv1\.0\.((?:\w+-\w+|6way)\.\w+)(?:\.gz)?": read_texts}
UN_NAMES = (
    "the United Nations Parallel Corpus. Its files are UNv1.0.<xx>-<yy>.<xx> with "
    "UNv1.0.<xx>-<yy>.<yy>, or UNv1.0.6way.<xx> with UNv1.0.6way.<yy>, plain or .gz. "
    "Unpack UNv1.0.<xx>-<yy>.tar.gz or UNv1.0.6way.tar.gz there."
)


def score_un(
    encoder: SentenceEncoder,
    pairs: Mapping[str, "DistinctPairs"],
    queries: int | None = None,
) -> dict[str, Any]:
    """Score retrieval in the United Nations Parallel Corpus.

    Repeated pairs are removed. Only the vectors of the queries and of one block of
    candidates are in memory.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        pairs: Pairs by track: `en-es` for English queries, `fr-es` for French ones.
        queries: Number of queries, evenly spread over the corpus; all if None. The
            candidates are always all translations.

    Returns:
        `{"precision": x100, "queries", "candidates", "tracks", "primary"}`. `precision`
        is precision at 1 of exact cosine search, the mean over languages; `queries` and
        `candidates` are sums, and `tracks` is the precision of each language. If
        several candidates are equally near, the first one is the answer.

    Raises:
        InputError: A file is damaged, or `queries` is below 1.

    Source: the task is from Guo et al. 2018, the corpus from Ziemski et al. 2016.
    """
    checks.at_least(1, queries=queries, languages=len(pairs))
    single = {}
    for track, own in pairs.items():
        count = min(queries or len(own), len(own))
        rows = np.linspace(0, len(own) - 1, count).astype(np.int64)
        queried = set(rows.tolist())
        texts = [source for row, (source, _) in enumerate(own) if row in queried]
        blocks = in_chunks((other for _, other in own), STREAMED)
        candidates = (encoded(encoder.encode, block) for block in blocks)
        _, found = top_k(encoded(encoder.encode, texts), candidates, 1)
        single[track] = {
            "precision": percent((found[:, 0] == rows).mean()),
            "queries": count,
            "candidates": len(own),
        }
    return over_tracks(single, ["precision"], ["queries", "candidates"])


class DistinctPairs:
    """The distinct pairs of two files; every iteration reads the files again."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        hashes = (text_hash(*pair) for pair in moses_rows(source, target))
        self.first = first_of_each(np.fromiter(hashes, "S16"))

    def __len__(self) -> int:
        return int(self.first.sum())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return compress(moses_rows(self.source, self.target), self.first)


def find_un(
    folder: Path, languages: Iterable[str], split: str = "all"
) -> dict[str, SetFile]:
    """Return both files of each language pair.

    Args:
        folder: Folder with the unpacked corpus, at any depth: `UNv1.0.en-<xx>.en` and
            `UNv1.0.en-<xx>.<xx>`, or `UNv1.0.6way.en` and `UNv1.0.6way.<xx>`; also .gz.
        languages: Codes, such as `es` for English queries, or `fr-es` for French
            queries.
        split: Not used; there is only one.

    Raises:
        InputError: A file is missing.
    """
    there, found = find_parts(folder, UN), {}
    for source, target in map(language_pair, languages):
        pair = f"{source}-{target}"
        name, of_six = f"{pair}.{source}", f"6way.{source}"
        name = of_six if of_six in there and name not in there else name
        [first] = check_parts(there, [name], UN_NAMES, folder)[name].paths
        found[pair] = SetFile((first, moses_partner(first, target)), DistinctPairs)
    return found


def find_held_out(
    folder: str | Path, languages: Iterable[str] | None = None, split: str = "dev"
) -> dict[str, SetFile]:
    """Return your own parallel files by language code.

    Args:
        folder: Folder with parallel files, see `read_pairs`.
        languages: Codes such as `de`, or `de-fr` for pairs without English; None for
            all.
        split: Not used; there is only one.

    Raises:
        InputError: A language has no file.
    """
    by_code: dict[str, list[PairFile]] = {}
    for file in read_pairs(folder).files:
        by_code.setdefault(pair_code(*file.languages), []).append(file)
    there = {
        code: SetFile(
            tuple(path for file in files for path in file.paths),
            partial(_rows_of, files),
        )
        for code, files in by_code.items()
    }
    codes = list(there)
    if languages is not None:
        codes = [pair_code(*language_pair(code)) for code in languages]
    what = "the pairs held out of training. Put <corpus>.en-<xx>.tsv.gz there."
    return check_parts(there, codes, what, folder)


def _rows_of(files: Iterable[PairFile], *_: Path) -> list[tuple[str, str]]:
    return [row for file in files for row in file.rows()]


def read_held_out(
    folder: str | Path, languages: Iterable[str] | None = None
) -> dict[str, list[tuple[str, str]]]:
    """Return pairs (source, translation) by language code; see `find_held_out`."""
    return read_parts(find_held_out(folder, languages))
