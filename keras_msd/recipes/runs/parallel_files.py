"""The parallel files of a data folder that a recipe names, in any format we read."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_folder, nearest
from keras_msd.data.pair import PairFile
from keras_msd.data.readers.discover import read_pairs
from keras_msd.data.readers.lines import PAIR, language_of, unpacked
from keras_msd.recipes.schema.recipe import Recipe


def corpus_of(name: str) -> str:
    """Return the corpus in the name of a `PairFile`: `x` of `x.en-de.tsv.gz`."""
    stem = unpacked(Path(name)).stem
    match = PAIR.search(stem)
    return stem[: match.start()] if match and language_of(Path(name)) else stem


def training_pairs(recipe: Recipe, data_dir: Path) -> list[PairFile]:
    """Return the recipe's corpora, language after language.

    Raises:
        InputError: The folder, a language or a corpus is not there.
    """
    files = _pairs(recipe, data_dir, "train")
    if recipe.data.corpora:
        check_corpora("data.corpora", recipe.data.corpora, files)
        files = [it for it in files if corpus_of(it.name) in recipe.data.corpora]
    return _every_language(recipe, data_dir, "train", files)


def development_pairs(recipe: Recipe, data_dir: Path) -> list[PairFile]:
    """Return the held-out pairs of the recipe's languages, whatever their corpus.

    Raises:
        InputError: The folder or a language is not there.
    """
    files = _pairs(recipe, data_dir, "dev")
    return _every_language(recipe, data_dir, "dev", files)


def training_files(recipe: Recipe, data_dir: Path) -> list[Path]:
    """Return the paths of the recipe's corpora, each once."""
    files = training_pairs(recipe, data_dir)
    return list(dict.fromkeys(path for file in files for path in file.paths))


def file_sizes(recipe: Recipe, data_dir: Path) -> dict[str, int]:
    """Return the size in bytes of every training file, by name."""
    files = training_files(recipe, data_dir)
    return {path.name: path.stat().st_size for path in files}


def check_corpora(key: str, names: Sequence[str], files: Iterable[Any]) -> None:
    """Raise `InputError` naming the corpora that no file is of.

    Args:
        key: The setting that names them.
        names: Their names.
        files: Those that there are; each has a `name`.
    """
    known = [corpus_of(file.name) for file in files]
    for name in names:
        if name not in known:
            there = ", ".join(sorted(set(known))) or "none"
            hint = nearest(name, known) or f"Add its files, or change `{key}`."
            raise InputError(
                f"Every corpus of `{key}` must be there in some language. Received: "
                f"`{name}`; there are {there}. {hint}"
            )


def _pairs(recipe: Recipe, data_dir: Path, part: str) -> list[PairFile]:
    folder = existing_folder(data_dir / "parallel" / part, "folder of parallel files")
    files = read_pairs(folder).files
    return [
        file
        for language in recipe.data.languages
        for file in files
        if file.language == language
    ]


def _every_language(
    recipe: Recipe, data_dir: Path, part: str, files: list[PairFile]
) -> list[PairFile]:
    there = {file.language for file in files}
    if absent := [code for code in recipe.data.languages if code not in there]:
        names = (part == "train" and recipe.data.corpora) or ("<corpus>",)
        files_of = ", ".join(f"{name}.en-{absent[0]}.tsv.gz" for name in names)
        raise InputError(
            f"The recipe `{recipe.recipe.name}` at scale {recipe.scale} needs parallel "
            f"files for {', '.join(f'`{code}`' for code in absent)}, and there are "
            f"none. Looked for: {files_of}, or the same in another format, in "
            f"`{data_dir / 'parallel' / part}`. Put one there, or change "
            "`data.languages` or `data.corpora`."
        )
    return files
