"""First steps of a run: data, teacher vectors, tokenizer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.recipes.runs.parallel_files import file_sizes, training_pairs
from keras_msd.recipes.runs.run import Run


def make_data(run: Run, folder: Path) -> None:
    """Write the made corpus in the layout of a data folder."""
    from keras_msd.data.made import write_made_data

    ours = run.recipe.data
    write_made_data(
        folder / "data",
        languages=ours.languages,
        pairs=ours.pairs_per_language or 1000,
        seed=ours.seed,
        sts_train_rows=ours.sts_train_rows,
    )


def take_pairs(run: Run, folder: Path) -> dict[str, Any]:
    """Filter, deduplicate and limit the pairs that the run trains on."""
    from keras_msd.data.pair import Pairs
    from keras_msd.data.text_table import TextTable

    ours = run.recipe.data
    table = TextTable.build(
        Pairs(training_pairs(run.recipe, run.data_dir)),
        folder / "texts",
        cleaning=run.cleaning,
        limit_per_file=ours.pairs_per_file,
        limit_per_language=ours.pairs_per_language,
        seed=ours.seed,
        temperature=ours.temperature,
    )
    return {
        "pairs": len(table),
        "counts": table.counts,
        "key": table.key,
        "sizes": file_sizes(run.recipe, run.data_dir),
    }


def take_teacher_vectors(run: Run, folder: Path) -> dict[str, Any]:
    """Store the teacher's vector of every English line, of both where it knows both."""
    store = run.store(run.teacher)
    sides = ("source", "target") if run.recipe.teacher.multilingual else ("source",)
    for side in sides:
        texts = (text for chunk in run.texts.chunks(side) for text in chunk)
        store.build(texts, total=len(run.texts))
    return {"fingerprint": run.teacher.fingerprint, "dim": run.teacher.dim}


def take_tokenizer(run: Run, folder: Path) -> dict[str, Any]:
    """Train a vocabulary on both sides of the pairs, or take one that exists."""
    from keras_msd.starts.svd import token_frequencies

    ours = run.recipe.tokenizer
    owner = run.teacher_encoder if ours.source == "teacher" else run.given_assistant
    if owner is not None:
        tokenizer = owner.tokenizer
        tokenizer.save(folder / "tokenizer")
    else:
        from keras_msd.tokenizers.train import train_unigram

        texts = (text for chunk in both_sides(run) for text in chunk)
        size = ours.vocabulary_size or 0  # the schema asks for one
        tokenizer = train_unigram(texts, size, folder / "tokenizer")
    lists = (ids for chunk in both_sides(run) for ids in tokenizer.encode_plain(chunk))
    counts = token_frequencies(lists, tokenizer.vocabulary_size)
    np.save(folder / "frequencies.npy", counts)
    return {"fingerprint": tokenizer.fingerprint, "tokens": int(counts.sum())}


def both_sides(run: Run) -> Iterator[list[str]]:
    """Yield all English lines, then all translations, in chunks."""
    for side in ("source", "target"):
        yield from run.texts.chunks(side)
