"""The parallel files of a data folder that a recipe names, in any format we read."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_folder, nearest
from keras_msd.data.pair import PairFile, language_pair
from keras_msd.data.readers.discover import read_pairs
from keras_msd.data.readers.lines import PAIR, languages_of, unpacked
from keras_msd.recipes.loading import Recipe


def corpus_of(name: str) -> str:
    """Return the corpus in the name of a `PairFile`: `x` of `x.en-de.tsv.gz`."""
    stem = unpacked(Path(name)).stem
    match = PAIR.search(stem)
    return stem[: match.start()] if match and languages_of(Path(name)) else stem


def training_pairs(recipe: Recipe, *data_dirs: Path) -> list[PairFile]:
    """Return the recipe's corpora, language after language.

    Those of parallel/train/, all where the recipe names none; and those of lexicon/,
    words and short phrases, that it names.

    Raises:
        InputError: A folder, a language or a corpus is not there, or two folders have
            a file of the same name.
    """
    corpora = recipe.data.corpora
    folders = [folder / "parallel" / "train" for folder in data_dirs]
    lexicons = [folder / "lexicon" for folder in data_dirs] if corpora else []
    folders += [folder for folder in lexicons if folder.is_dir()]
    return _pairs(recipe, folders, corpora)


def development_pairs(recipe: Recipe, data_dir: Path) -> list[PairFile]:
    """Return the held-out pairs of the recipe's languages, whatever their corpus.

    Raises:
        InputError: The folder or a language is not there.
    """
    return _pairs(recipe, [data_dir / "parallel" / "dev"])


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


def _pairs(
    recipe: Recipe, folders: Sequence[Path], corpora: Sequence[str] = ()
) -> list[PairFile]:
    places = [existing_folder(folder, "folder of parallel files") for folder in folders]
    found = read_pairs(places).files
    _check_names(found)
    asked = {language_pair(code): code for code in recipe.data.languages}
    files = [it for pair in asked for it in found if it.languages == pair]
    if corpora:
        check_corpora("data.corpora", corpora, files)
        files = [it for it in files if corpus_of(it.name) in corpora]
    there = {file.languages for file in files}
    if absent := [pair for pair in asked if pair not in there]:
        names, codes = corpora or ("<corpus>",), "-".join(absent[0])
        files_of = ", ".join(f"{name}.{codes}.tsv.gz" for name in names)
        raise InputError(
            f"The recipe `{recipe.recipe.name}` at scale {recipe.scale} needs parallel "
            f"files for {', '.join(f'`{asked[pair]}`' for pair in absent)}, and there "
            f"are none. Looked for: {files_of}, or the same in another format, in "
            f"{', '.join(f'`{place}`' for place in places)}. Put one there, or change "
            "`data.languages` or "
            "`data.corpora`."
        )
    return files


def _check_names(files: Iterable[PairFile]) -> None:
    """Raise `InputError` if files of two folders have one name.

    Draws, limits and messages go by names.
    """
    known: dict[str, Path] = {}
    for path in (path for file in files for path in file.paths):
        other = known.setdefault(path.name, path)
        if other != path:
            raise InputError(
                "Parallel files of several folders must differ in their names. "
                f"Received: `{other}` and `{path}`. Rename one, or give one folder."
            )
