"""One's own pairs in, an encoder out: the held-out split, the recipe, what was lost."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.checkpoints.packaged import is_installed
from keras_msd.checks import InputError
from keras_msd.data.cleaning import Cleaning, normalize
from keras_msd.data.pair import PairFile, Pairs, pair_code
from keras_msd.data.readers.discover import read_pairs
from keras_msd.data.readers.records import pairs_of_rows
from keras_msd.data.write import write_rows
from keras_msd.evaluate.halves import CHOOSE, REPORT, half_of
from keras_msd.evaluate.held_out import read_held_out
from keras_msd.evaluate.similarity import sts
from keras_msd.evaluate.translations import retrieval_languages
from keras_msd.files import atomic_path, read_json, text_hash, to_toml, write_json
from keras_msd.recipes.files import merge
from keras_msd.recipes.loading import load_recipe, nested
from keras_msd.recipes.runner import run

STAGE = "learn_translations"
TEACHER, KNOWN = "teacher", "tiny12"  # what training starts from
ENCODER, CLOSED_FORM = "encoder", "closed_form"
FOLDERS = {  # of what may be kept, the first one if both are as good
    ENCODER: "run/assistant",
    CLOSED_FORM: "run/stages/closed_form/encoder",
}
SHARE = 1 / 8  # of the source sentences, by their hash
MOST = 2000  # held-out pairs of each language that are scored
BATCH = 1024
LEAST = 100  # pairs to train on
SHIFTS = 5  # sentences that each one is compared with, for the teacher's similarities


def distil(
    pairs: Any,
    out_dir: str | Path,
    language: str | None = None,
    source_language: str | None = None,
    teacher: str = "default",
    multilingual: bool = False,
    minutes: float = 5.0,
    vocabulary_size: int | None = None,
    start: str | Path | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Distil a teacher into a small encoder with pairs of one's own.

    An eighth of the sources, by a hash of their text, is held out of training, with all
    of its translations: one half chooses the weights, the other one is reported. First
    the closed form, a word table by ridge regression: what the pairs and the teacher
    give without training. Then an encoder is trained to find translations until the
    held-out scores stop or the time is over: tiny12, with the pieces of words that it
    lacks, or the closed form. What is kept is never worse than the closed form on the
    half that chooses.

    `out_dir` gets `encoder/`, which `load_encoder` reads; `recipe.toml`, which repeats
    it with `keras-msd run OUT/recipe.toml --data OUT/data --out ELSEWHERE`; `data/`,
    the pairs as they were split; `run/`, with the report of the run; `report.json`.
    The same call again goes on where it was stopped.

    Args:
        pairs: Paths of files that `read_pairs` takes (TSV, CSV with a header, JSON
            Lines, TMX, parquet, ...), or rows in memory: a pandas `DataFrame`, rows of
            Hugging Face datasets, `(source, target)` tuples, `Pair`s.
        out_dir: The folder.
        language: Code of the translations' language, where no name says it.
        source_language: Code of the sources' language, where it is not English and no
            name says it.
        teacher: As for `load_teacher`: "default", a folder, `hf://org/name`, ...
        multilingual: Whether it reads more than English; pairs without English need
            such a teacher.
        minutes: Most time of the training; other steps take a minute or so, with a few
            thousand pairs.
        vocabulary_size: Most rows of the closed form's word table; by default 8,000 for
            one language and 2,000 for each further one, at most 16,000. What starts
            from an encoder keeps its rows, and gets those of these pieces it lacks.
        start: What is trained: "teacher" for the closed form; "tiny12", the folder of
            an encoder or whatever `load_encoder` takes, of the teacher's width, without
            a body and with a unigram vocabulary. By default tiny12, where its package
            is installed, the teacher is the default one and no value of `assistant`
            is among the overrides.
        store_dir: As for `run`.
        overrides: Values by dotted key over those of the recipe, such as
            `{"stages.learn_translations.temperature": 0.05}`.

    Returns:
        What report.json holds, the paths of `encoder`, `recipe` and `report`, and
        `again`, the command that repeats it. In report.json: `pairs`, counts by
        language; `start`, its `source` and its `precision` before training; `kept`,
        "encoder", or "closed_form" where that was better; `closed_form` and
        `encoder_scores`, of what was kept, each with `precision` at 1 x100 among
        held-out pairs, that of each language as `tracks`, and `teacher_similarities`,
        Spearman x100 between the teacher's cosines of source sentences and its own,
        `within` their language and `across`; `gain` in precision; `updates`,
        `best_update`, `parameters`, `seconds`.

    Raises:
        InputError: The pairs cannot be read, or are too few; the folder holds something
            else; `start` is no such encoder; or what `run` raises.

    Example:
        >>> pairs = msd.testing.tiny_pairs()
        >>> msd.distil(pairs, "model")
        Traceback (most recent call last):
            ...
        keras_msd.checks.InputError: `pairs` must have at least 100 pairs to train ...
    """
    checks.above(0, minutes=minutes)
    checks.at_least(16, vocabulary_size=vocabulary_size)
    out, changes = Path(out_dir), nested(overrides or {})
    if start is None:
        asked = teacher != "default" or "assistant" in changes
        start = TEACHER if asked or not is_installed(KNOWN) else KNOWN
    corpus = _opened(pairs, language, source_language)
    counts = _split(corpus, out / "data")
    size = vocabulary_size or min(16_000, 6_000 + 2_000 * len(counts))
    trained_on = sum(count["train"] for count in counts.values())
    stage = {"batch_size": min(BATCH, trained_on // 2), "minutes": float(minutes)}
    values: dict[str, Any] = {
        "extends": "_distil",
        "recipe": {"name": "distil", "title": f"Own pairs: {', '.join(counts)}"},
        "teacher": {"source": teacher, "multilingual": multilingual},
        "data": {"languages": list(counts)},
        "tokenizer": {"vocabulary_size": size},
        "evaluate": {"languages": {"held-out": list(counts)}},
        "stages": {STAGE: stage},
    }
    if start != TEACHER:
        source = Path(start).resolve() if Path(start).exists() else start
        values |= {"extends": "_distil_known", "assistant": {"source": str(source)}}
    recipe = out / "recipe.toml"
    _write(recipe, values := merge(values, changes))
    result = run(recipe, out / "run", data_dir=out / "data", store_dir=store_dir)
    kept = _better(out)
    with atomic_path(out / "encoder") as temporary:
        shutil.copytree(out / FOLDERS[kept], temporary)
    record = read_json(out / "run" / "stages" / STAGE / "done.json")["result"]
    _write(recipe, _repeated(values, recipe, kept, record["steps"]))
    facts = _report(result, counts, out, record, str(start), kept)
    write_json(out / "report.json", facts)
    paths = {"encoder": out / "encoder", "recipe": recipe, "report": result["report"]}
    again = f"keras-msd run {recipe} --data {out / 'data'} --out ELSEWHERE"
    return facts | {key: str(path) for key, path in paths.items()} | {"again": again}


def _opened(pairs: Any, language: str | None, source_language: str | None) -> Pairs:
    if isinstance(pairs, Pairs):
        return pairs
    if isinstance(pairs, str | Path):
        pairs = [pairs]
    listed = isinstance(pairs, list | tuple) and bool(pairs)
    if listed and all(isinstance(it, str | Path) for it in pairs):
        return read_pairs(pairs, language=language, source_language=source_language)
    return pairs_of_rows(pairs, language, source_language)


def _write(path: Path, values: Mapping[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(to_toml(values), encoding="utf-8")


def _better(out: Path) -> str:
    """Return which of `FOLDERS` finds more of the held-out pairs that choose."""
    from keras_msd.models.encoder import load_saved

    held = read_held_out(out / "data" / "parallel" / "dev")

    def precision(name: str) -> float:
        encoder = load_saved(out / FOLDERS[name])
        return retrieval_languages(encoder, held, CHOOSE)["precision"]

    return max(FOLDERS, key=precision)


def _repeated(
    values: Mapping[str, Any], recipe: Path, kept: str, steps: int
) -> dict[str, Any]:
    """Return the values of the recipe whose assistant is what was kept."""
    # The updates instead of the time: the same on any machine.
    stage = {k: v for k, v in values["stages"][STAGE].items() if k != "minutes"}
    stage["steps"] = steps
    again = {**values, "stages": values["stages"] | {STAGE: stage}}
    if kept == ENCODER:
        return again
    max_length = load_recipe(recipe).data.max_length
    again.pop("assistant", None)
    again |= {"extends": "_distil", "data": again["data"] | {"max_length": max_length}}
    return merge(again, {"stages": {STAGE: {"skip": True}}})


def _split(corpus: Pairs, folder: Path) -> dict[str, dict[str, int]]:
    """Write the pairs, those held out apart; return their counts by language.

    Raises:
        InputError: The folder has other pairs, or there are too few.
    """
    content = corpus.digest()
    facts = folder / "pairs.json"
    if facts.is_file():
        known = read_json(facts)
        if known["content"] != content:
            raise InputError(
                f"`{folder.parent}` must be new, or go on with its pairs. Received: "
                "other pairs than it began with. Give another folder."
            )
        return dict(known["pairs"])
    by_code: dict[str, list[PairFile]] = {}
    for file in corpus.files:
        by_code.setdefault(pair_code(*file.languages), []).append(file)
    with atomic_path(folder) as temporary:
        counts = {
            code: _split_one(files, temporary / "parallel")
            for code, files in by_code.items()
        }
        _check_counts(counts)
        write_json(temporary / "pairs.json", {"content": content, "pairs": counts})
    return counts


def _check_counts(counts: Mapping[str, Mapping[str, int]]) -> None:
    total = sum(count["train"] for count in counts.values())
    if total < LEAST:
        raise InputError(
            f"`pairs` must have at least {LEAST} pairs to train on, beside the one in "
            f"eight that is held out. Received: {total}. Give more."
        )
    for code, count in counts.items():
        if not min(count.values()):
            said = ", ".join(f"{number} to {use}" for use, number in count.items())
            raise InputError(
                f"`pairs` in `{code}` must give some to train on, to choose the "
                f"weights on and to report. Received: {said}. Give more, or leave "
                "that language out."
            )


def _split_one(files: Iterable[PairFile], folder: Path) -> dict[str, int]:
    """Write the pairs of one pair of languages; return how many each part has."""
    files = list(files)
    name = f"own.{'-'.join(files[0].languages)}.tsv.gz"
    held: dict[str, tuple[float, str]] = {}
    seen: set[str] = set()  # translations that no pair to train on may have
    for source, target in _clean(files):
        if (place := _place(source)) < SHARE:
            if source not in held and target not in seen:
                held[source] = place, target
            seen.add(target)
    chosen = sorted(held, key=lambda source: held[source])[:MOST]
    write_rows(folder / "dev" / name, ((it, held[it][1]) for it in chosen))
    rows = (row for row in _clean(files) if _place(row[0]) >= SHARE)
    rows = (row for row in rows if row[1] not in seen)
    trained = write_rows(folder / "train" / name, rows)
    halves = [half_of(source) for source in chosen]
    parts = {part: halves.count(part) for part in (CHOOSE, REPORT)}
    return {"train": trained, **parts}


def _clean(files: Iterable[PairFile]) -> Iterator[tuple[str, str]]:
    cleaning = Cleaning()
    for file in files:
        for pair in file.iterate():
            source, target = map(normalize, pair)
            if cleaning.reason(source, target) is None:
                yield source, target


def _place(source: str) -> float:
    """Return a number in [0, 1) that follows from a text."""
    return int.from_bytes(text_hash(source)[:6]) / 2**48


def _report(
    result: Mapping[str, Any],
    counts: Mapping[str, Mapping[str, int]],
    out: Path,
    record: Mapping[str, Any],
    start: str,
    kept: str,
) -> dict[str, Any]:
    """Return what was gained over the closed form, and lost against the teacher."""
    kinds = CLOSED_FORM, "assistant"
    closed, before, trained = (it for it in result["rows"] if it["kind"] in kinds)
    kept_row = trained if kept == ENCODER else closed
    folders = out / FOLDERS[CLOSED_FORM], out / "encoder"
    similarities = _similarities(out, folders)
    scores = [
        {
            "precision": row["held_out"],
            "tracks": row["tracks"],
            "teacher_similarities": similar,
        }
        for row, similar in zip((closed, kept_row), similarities, strict=True)
    ]
    return {
        "pairs": dict(counts),
        "start": {"source": start, "precision": before["held_out"]},
        "kept": kept,
        "closed_form": scores[0],
        "encoder_scores": scores[1],
        "gain": round(scores[1]["precision"] - scores[0]["precision"], 4),
        "updates": record["steps"],
        "best_update": record["best_step"],
        "parameters": kept_row["parameters"],
        "seconds": result["timings"]["seconds"],
    }


def _similarities(out: Path, folders: Iterable[Path]) -> list[dict[str, float]]:
    """Return how the encoders of two folders order sentences, as the teacher does."""
    from keras_msd.models.encoder import load_saved
    from keras_msd.recipes.loading import load_recipe
    from keras_msd.teachers.teacher import load_teacher

    settings = load_recipe(out / "recipe.toml").teacher
    held = read_held_out(out / "data" / "parallel" / "dev")
    pairs = [pair for of in held.values() for pair in of if half_of(pair[0]) == REPORT]
    teacher = load_teacher(settings.source, None, settings.dim, settings.pooling)
    units = teacher.encode([source for source, _ in pairs])
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    shifts = product(range(len(pairs)), range(1, 1 + SHIFTS))
    places = [(row, (row + shift) % len(pairs)) for row, shift in shifts]
    gold = [float(units[one] @ units[other]) for one, other in places]
    scores = []
    for folder in folders:
        encoder = load_saved(folder)
        both = {}
        for side, name in ((0, "within"), (1, "across")):
            rows = [
                (score, pairs[one][0], pairs[other][side])
                for score, (one, other) in zip(gold, places, strict=True)
            ]
            both[name] = sts(encoder, rows)["spearman"]
        scores.append(both)
    return scores
