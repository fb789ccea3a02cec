"""First steps of a run: data, teacher vectors, tokenizer."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.data.examples import write_examples
from keras_msd.data.pair import Pairs
from keras_msd.data.text_table import TextTable
from keras_msd.models.trim import trim_vocabulary
from keras_msd.recipes.resources import Run
from keras_msd.recipes.settings import PairStageSettings
from keras_msd.recipes.stages import fits_table, reduces_teacher, stages_in_use
from keras_msd.starts.tables import token_frequencies
from keras_msd.tokenizers.sentencepiece import train_unigram


def write_example_data(run: Run, folder: Path) -> None:
    """Write the example sentences in the layout of a data folder.

    What is held out is no larger than what is trained on.
    """
    settings = run.recipe.data
    write_examples(
        folder / "data",
        languages=settings.languages,
        pairs=settings.pairs_per_language,
        rows=settings.pairs_per_language,
        train_rows=settings.sts_train_rows,
        inference_rows=settings.nli_rows or 0,
    )


def take_pairs(run: Run, folder: Path) -> dict[str, Any]:
    """Filter, deduplicate and limit the pairs that the run trains on."""
    settings = run.recipe.data
    table = TextTable.build(
        Pairs(run.training_pairs()),
        folder / "texts",
        cleaning=run.cleaning,
        limit_per_file=settings.pairs_per_file,
        limit_per_language=settings.pairs_per_language,
        seed=settings.seed,
        temperature=settings.temperature,
        dirty_rows=settings.dirty_rows,
    )
    return {
        "pairs": len(table),
        "counts": table.counts,
        "key": table.key,
    }


def take_teacher_vectors(run: Run, folder: Path) -> dict[str, Any]:
    """Store the teacher's vector of every source line, of both where it knows both."""
    return _store_vectors(run, run.teacher, run.recipe.teacher.multilingual)


def take_guide_vectors(run: Run, folder: Path, name: str) -> dict[str, Any]:
    """Store the vectors of the teacher of `[guides.<name>]` in the same way."""
    return _store_vectors(run, run.guide(name), run.recipe.guides[name].multilingual)


def _store_vectors(run: Run, guide: Any, multilingual: bool) -> dict[str, Any]:
    store = run.store(guide)
    for table in _learnt(run):
        for side in ("source", "target") if multilingual else ("source",):
            texts = (text for chunk in table.chunks(side) for text in chunk)
            store.build(texts, total=len(table))
    return {"fingerprint": guide.fingerprint, "dim": guide.dim}


def _learnt(run: Run) -> list[Any]:
    """Return the pairs that are learnt from: all for a word table, else the stages'."""
    stages = [it for _, it in stages_in_use(run.recipe)]
    of_pairs = [it for it in stages if isinstance(it, PairStageSettings)]
    if fits_table(run.recipe) or reduces_teacher(run.recipe) or not of_pairs:
        return [run.texts]
    tables = {table.folder: table for table in map(run.texts_of, of_pairs)}
    return [*tables.values()]


def trim_assistant(run: Run, folder: Path) -> dict[str, Any]:
    """Keep the most frequent pieces of the pairs in the assistant that is named."""
    encoder: Any = run.named_assistant  # the schema asks for one
    trim: Any = run.recipe.assistant.trim
    texts = chain.from_iterable(both_sides(run))
    trimmed = trim_vocabulary(encoder, texts, keep=trim.pieces)
    trimmed.save(folder / "encoder")
    sizes = [it.tokenizer.vocabulary_size for it in (encoder, trimmed)]
    return {"pieces_before": sizes[0], "pieces_after": sizes[1]}


def take_tokenizer(run: Run, folder: Path) -> dict[str, Any]:
    """Train a vocabulary on both sides of the pairs, or take one that exists."""
    settings = run.recipe.tokenizer
    if settings.vocabulary_size is not None:
        texts = chain.from_iterable(both_sides(run))
        size, fold = settings.vocabulary_size, settings.case_fold
        tokenizer: Any = train_unigram(texts, size, case_fold=fold)
    else:
        of_teacher = run.recipe.tokenizer_source == "teacher"
        owner: Any = run.teacher_encoder if of_teacher else run.given_assistant
        tokenizer = owner.tokenizer
    tokenizer.save(folder / "tokenizer")
    counts = token_frequencies(token_lists(run, tokenizer), tokenizer.vocabulary_size)
    np.save(folder / "frequencies.npy", counts)
    return {"fingerprint": tokenizer.fingerprint, "tokens": int(counts.sum())}


def both_sides(run: Run) -> Iterator[list[str]]:
    """Yield all source lines, then all translations, in chunks."""
    for side in ("source", "target"):
        yield from run.texts.chunks(side)


def token_lists(run: Run, tokenizer: Any) -> Iterator[list[int]]:
    """Yield the token ids of each line that `both_sides` has."""
    for chunk in both_sides(run):
        yield from tokenizer.encode_plain(chunk)
