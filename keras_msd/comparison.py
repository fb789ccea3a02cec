"""Compare encoders side by side on your own pairs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from itertools import cycle, islice
from pathlib import Path
from timeit import timeit
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.arrays import TextEncoder, unit_rows
from keras_msd.checkpoints.packaged import FILES, backbone_files, is_packaged
from keras_msd.checks import InputError
from keras_msd.data.pair import GradedPair
from keras_msd.evaluate.adapters import EmbeddingsAPI, is_address
from keras_msd.evaluate.measures import DECIMALS, by_cosine, cost, encoded, percent
from keras_msd.evaluate.similarity import sts as score_sts
from keras_msd.io.remote import PATTERNS
from keras_msd.load import folder_of, open_source
from keras_msd.teachers.teacher import TEACHERS, default_folder, is_default

DRAWS = 1000
INTERVAL = (2.5, 97.5)  # percentiles
BLOCK = 1 << 22  # cosines in memory at a time
TIMED = (1, 64)  # texts in a call
CALLS = {1: 32, 64: 3}


def compare(
    encoders: Iterable[Any] | Mapping[str, Any],
    pairs: Iterable[Sequence[str]],
    sts: Iterable[GradedPair] | None = None,
    prefixes: Mapping[str, str] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare encoders on pairs of sentences and their translations.

    A pair is correct in one direction if its cosine is higher than that of its source
    with every wrong translation: with every target that is not in a pair with the
    source. The other direction has the roles exchanged. The candidates are the distinct
    sentences of the pair's two languages. Repeated pairs count once.

    Args:
        encoders: What to compare: names and paths as for `load_encoder` and
            `load_teacher`, or addresses as for `EmbeddingsAPI`. For objects with
            `encode`, such as a `SentenceTransformer`, a mapping from names to them.
        pairs: `(source, target)`, or `Pair`s, such as those of `read_pairs`.
        sts: Graded rows `(gold, sentence 1, sentence 2)`.
        prefixes: Text before every sentence, such as "query: ", by the name of an
            encoder, in place of its own.
        seed: Decides the draws of the bootstrap.

    Returns:
        `{"pairs", "sources", "targets", "solved", "encoders"}`: numbers of distinct
        pairs and sentences; whether all encoders reach a precision of 100, so that only
        the margin can tell them apart; and for each encoder:

        - `name`;
        - `source_to_target`, `target_to_source`: share of correct pairs x100;
          `precision`, their mean (P@1);
        - `interval`: its 95 % interval x100: percentiles 2.5 and 97.5 of 1,000
          bootstrap draws of source sentences with all their pairs. All encoders have
          the same draws;
        - `margin`: the cosine of a pair minus the highest cosine with a wrong sentence,
          mean over pairs and directions;
        - `mrr`: mean reciprocal rank x100, over pairs and directions. A wrong sentence
          with the same cosine has the better rank;
        - `spearman`: x100, if `sts` is given, see `evaluate.sts`;
        - `dim`: dimension of a vector;
        - `bytes`: size of its files; for an object, of its weights in memory; None if
          unknown;
        - `milliseconds_1`, `milliseconds_64`: median time per sentence of your pairs,
          for one and for 64 sentences in a call.

    Raises:
        InputError: An encoder is missing or damaged, a server does not answer, there is
            no wrong sentence to compare a pair with, vectors are not finite, or an
            encoder's are not compared by cosine. Arguments are checked before an
            encoder is loaded.

    Source: the bootstrap is the percentile method of Efron and Tibshirani 1993.

    Example:
        >>> pairs = [("Tee", "Tee"), ("Radio", "Radio"), ("Wind", "Wind")]
        >>> encoders = {"tiny": msd.testing.tiny_encoder()}
        >>> result = msd.evaluate.compare(encoders, pairs)
        >>> result["encoders"][0]["precision"], result["solved"]
        (100.0, True)
    """
    known = _named(encoders)
    if unknown := [name for name in prefixes or () if name not in known]:
        checks.one_of(known, prefixes=unknown[0])
    questions = Questions(pairs)
    graded = None if sts is None else list(sts)
    files = {name: files_of(source) for name, source in known.items()}
    opened = {
        name: Prompted(_open(source), (prefixes or {}).get(name))
        for name, source in known.items()
    }
    for encoder in opened.values():
        by_cosine(encoder.encoder, "`compare`")
    results = []
    for name, encoder in opened.items():
        result = {"name": name, **questions.score(encoder, seed)}
        if graded is not None:
            result["spearman"] = score_sts(encoder, graded)["spearman"]
        result["bytes"] = _bytes(encoder.encoder, files[name])
        for size in TIMED:
            texts = list(islice(cycle(questions.texts), size * CALLS[size]))
            result[f"milliseconds_{size}"] = _milliseconds(encoder, texts, size)
        results.append(result)
    return {
        "pairs": len(questions.units),
        "sources": len({*questions.units}),
        "targets": sum(len(group.targets) for group in questions.groups),
        "solved": all(result["precision"] == 100 for result in results),
        "encoders": results,
    }


def _named(encoders: Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
    checks.a_list(encoders=encoders)
    if isinstance(encoders, Mapping):
        known = {str(name): source for name, source in encoders.items()}
    else:
        known = {}
        for source in encoders:
            if not isinstance(source, str | Path):
                raise InputError(
                    "`encoders` must map names to objects. Received: a list with "
                    f"{type(source).__name__}. Write " + '{"mine": encoder}.'
                )
            known[str(source)] = source
    checks.at_least(1, encoders=len(known))
    for name, source in known.items():
        if not isinstance(source, str | Path) and not hasattr(source, "encode"):
            raise InputError(
                f"`{name}` must have `encode`. Received: {type(source).__name__}."
            )
    return known


def files_of(source: Any) -> list[Path]:
    """Return the files of an encoder's name or path, none for other sources.

    Raises:
        InputError: It does not exist.
    """
    if not isinstance(source, str | Path) or is_address(source):
        return []
    if is_packaged(source, FILES):
        return backbone_files(str(source))
    if str(source) in TEACHERS and not Path(source).exists():
        return []
    place = Path(default_folder()) if is_default(source) else folder_of(source)
    if place.is_file():
        return [place]
    files = [path for path in place.rglob("*") if path.is_file()]
    if (place / "config.json").is_file() or (place / "modules.json").is_file():
        # A checkpoint may lie there in other formats, too.
        return [it for it in files if any(fnmatch(it.name, one) for one in PATTERNS)]
    return files


def _open(source: Any) -> Any:
    if is_address(source):
        return EmbeddingsAPI(source)
    is_name = isinstance(source, str | Path)
    return open_source(source, light=True) if is_name else source


def _bytes(encoder: Any, files: Sequence[Path]) -> int | None:
    if card := getattr(encoder, "card", None):
        return int(card["bytes"])
    if files:
        return sum(path.stat().st_size for path in files)
    if hasattr(encoder, "model") and hasattr(encoder.model, "weights"):
        return cost(encoder)["bytes"]
    if hasattr(encoder, "parameters"):  # of torch
        return sum(it.numel() * it.element_size() for it in encoder.parameters())
    return None


class Prompted:
    """An encoder with another prefix than its own, and without progress bars."""

    def __init__(self, encoder: Any, prefix: str | None) -> None:
        self.encoder, self.prefix = encoder, prefix
        self.options: dict[str, Any] = {}
        if isinstance(encoder, TextEncoder):
            self.options = {"progress": False}
        elif hasattr(encoder, "get_sentence_embedding_dimension"):
            self.options = {"show_progress_bar": False, "batch_size": TIMED[-1]}
        if self.options and prefix is not None:
            self.options["prompt"] = prefix

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return the vectors of texts, `(n, dim)`."""
        if self.prefix and not self.options:
            texts = [self.prefix + text for text in texts]
        return np.asarray(self.encoder.encode(texts, **self.options))


class Group:
    """The distinct pairs of two languages.

    Attributes:
        sources: Distinct sources.
        targets: Distinct targets.
        rows: Row of the source and row of the target of each pair, int64 `(n, 2)`.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        places: tuple[dict[str, int], dict[str, int]] = ({}, {})
        found = {
            tuple(
                of.setdefault(it, len(of)) for it, of in zip(pair, places, strict=True)
            )
            for pair in pairs
        }
        self.sources, self.targets = map(list, places)
        self.rows = np.array(sorted(found), np.int64)
        for column, there in ((0, len(self.targets)), (1, len(self.sources))):
            counts = np.bincount(self.rows[:, column])
            if (counts == there).any():
                text = (self.sources, self.targets)[column][int(counts.argmax())]
                raise InputError(
                    "Every sentence needs a wrong translation to be compared with. "
                    f"Received: none for {text!r:.80}. Add pairs with other sentences."
                )


def _ranks(
    queries: np.ndarray, candidates: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return margin and rank of each pair `(row of query, row of candidate)`.

    Args:
        queries: Vectors of length one, float64 `(number of queries, dim)`.
        candidates: The same of the candidates.
        rows: The pairs, int64 `(n, 2)`.
    """
    order = np.argsort(rows[:, 0], kind="stable")
    of_query = np.split(rows[order, 1], np.cumsum(np.bincount(rows[:, 0]))[:-1])
    margins, ranks = np.empty(len(rows)), np.empty(len(rows), np.int64)
    step = max(1, BLOCK // len(candidates))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        query, right = rows[part].T
        cosines = np.round(queries[query] @ candidates.T, DECIMALS)
        own = cosines[np.arange(len(query)), right]
        for line, one in enumerate(query):
            cosines[line, of_query[one]] = -np.inf
        margins[part] = own - cosines.max(axis=1)
        ranks[part] = 1 + (cosines >= own[:, None]).sum(axis=1)
    return margins, ranks


class Questions:
    """Pairs in any number of languages, ready to be scored.

    Attributes:
        groups: The pairs of each two languages.
        units: Source sentence of each pair.
        texts: The distinct sentences.
    """

    def __init__(self, pairs: Iterable[Sequence[str]]) -> None:
        by_languages: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for place, pair in enumerate(pairs):
            if isinstance(pair, str) or len(pair) < 2:
                raise InputError(
                    "`pairs` must hold (source, target). Received: "
                    f"{pair!r:.80} at position {place}."
                )
            source, target = checks.sentences(list(pair[:2]), "pairs")
            by_languages.setdefault(tuple(pair[2:]), []).append((source, target))
        checks.at_least(1, pairs=len(by_languages))
        self.groups = [Group(group) for group in by_languages.values()]
        self.units = [
            group.sources[row] for group in self.groups for row in group.rows[:, 0]
        ]
        sides = (
            side for group in self.groups for side in (group.sources, group.targets)
        )
        self.texts = list(dict.fromkeys(text for side in sides for text in side))

    def score(self, encoder: Any, seed: int) -> dict[str, Any]:
        """Return the scores of one encoder; see `compare`."""
        vectors = encoded(encoder.encode, self.texts)
        scores = self.summary(*self.measure(vectors), seed)
        return scores | {"dim": vectors.shape[1]}

    def measure(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return margins and ranks, each `(direction, pair)`, of vectors of `texts`."""
        units = unit_rows(vectors.astype(np.float64))
        row = {text: place for place, text in enumerate(self.texts)}
        found = []
        for group in self.groups:
            left, right = (
                units[[row[text] for text in side]]
                for side in (group.sources, group.targets)
            )
            forward = _ranks(left, right, group.rows)
            found.append([forward, _ranks(right, left, group.rows[:, ::-1])])
        # (direction, margin or rank, pair)
        margins, ranks = np.concatenate(found, axis=-1).transpose(1, 0, 2)
        return margins, ranks

    def summary(
        self, margins: np.ndarray, ranks: np.ndarray, seed: int
    ) -> dict[str, Any]:
        """Return the scores of margins and ranks; see `compare`."""
        hits = margins > 0
        ways = [percent(hits[way].mean()) for way in (0, 1)]
        return {
            "precision": percent(hits.mean()),
            "source_to_target": ways[0],
            "target_to_source": ways[1],
            "interval": self.interval(hits.mean(axis=0), seed),
            "margin": round(float(margins.mean()), 6),
            "mrr": percent((1 / ranks).mean()),
        }

    def interval(self, hits: np.ndarray, seed: int) -> list[float]:
        """Return the 95 % bootstrap interval of the mean over pairs of `hits`, x100."""
        _, unit = np.unique(np.array(self.units, object), return_inverse=True)
        sums, counts = np.bincount(unit, hits), np.bincount(unit)
        random = np.random.default_rng(seed)
        means = []
        for _ in range(DRAWS):
            drawn = random.integers(0, len(sums), len(sums))
            means.append(sums[drawn].sum() / counts[drawn].sum())
        return [percent(bound) for bound in np.percentile(means, INTERVAL)]


def _milliseconds(encoder: Prompted, texts: Sequence[str], size: int) -> float:
    """Return the median time per text, of calls with `size` texts each."""
    calls = [texts[start : start + size] for start in range(0, len(texts), size)]

    def seconds(call: Sequence[str]) -> float:
        return timeit(lambda: encoder.encode(list(call)), number=1)

    for call in calls:  # the first time, a network may be compiled for a new length
        seconds(call)
    return round(1000 * statistics.median(map(seconds, calls)) / size, 4)
