"""Score rows of a run: what an encoder costs and how well it does."""

from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_folder
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.steps.sts_scores import (
    check_sts2017,
    score_sts,
    sts_files,
    sts_languages,
)

TATOEBA = ("tatoeba.", "-eng.tsv.gz")  # around the code in a file's name


def evaluation_files(recipe: Recipe, data_dir: Path) -> list[Path]:
    """Return the files that scoring reads."""
    ours = recipe.evaluate
    files = sts_files(recipe, data_dir)
    files += [
        data_dir / "tatoeba" / code.join(TATOEBA)
        for code in [*ours.retrieval, *other_tatoeba(recipe, data_dir)]
    ]
    for code in ours.un:
        files += [
            _found(data_dir / "un", f"UNv1.0.en-{code}.{end}") for end in ("en", code)
        ]
    for code in ours.bucc:
        files += [
            _found(data_dir / "bucc2018", f"{code}-en.training.{end}")
            for end in (code, "en", "gold")
        ]
    return files


def other_tatoeba(recipe: Recipe, data_dir: Path) -> list[str]:
    """Return the languages in `tatoeba/` that are not the recipe's, if it has some."""
    ours = recipe.evaluate.retrieval
    start, end = TATOEBA
    files = (data_dir / "tatoeba").glob("*".join(TATOEBA)) if ours else ()
    found = {path.name.removeprefix(start).removesuffix(end) for path in files}
    return sorted(found.difference(ours))


def _found(folder: Path, name: str) -> Path:
    """Return the file of that name, packed or not, at the place it unpacks to."""
    for pattern in (name, f"{name}.gz"):
        if places := sorted(folder.rglob(pattern)):
            return places[0]
    return folder / name


def check_evaluation_files(recipe: Recipe, data_dir: Path) -> None:
    """Raise `InputError` naming every evaluation file that is not there."""
    existing_folder(data_dir, "data folder")
    absent = [f for f in evaluation_files(recipe, data_dir) if not f.is_file()]
    if absent:
        shown = ", ".join(f"`{file}`" for file in absent)
        raise InputError(
            f"The recipe `{recipe.recipe.name}` at scale {recipe.scale} needs files "
            f"that do not exist: {shown}. Put them there, or change `[evaluate]`."
        )
    check_sts2017(recipe, data_dir)


def score_row(
    recipe: Recipe,
    data_dir: Path,
    encoder: Any,
    full: bool = True,
    others: bool = True,
) -> dict[str, Any]:
    """Return sizes and scores of one encoder.

    Args:
        recipe: Says which sets are read.
        data_dir: Holds `sts/` and `tatoeba/`.
        encoder: Has `encode`; with `model` its size is counted, too.
        full: All scores; otherwise the cross-lingual one alone, which reads a quarter
            of the sentences.
        others: With `full`, retrieval in the other languages of `tatoeba/`, too.

    Returns:
        `parameters`, `bytes`, `table_bytes` where known; `cross_lingual`,
        `monolingual`, `tracks`, `retrieval`, `retrieval_others`, `un` and `bucc`, x100,
        as far as they were asked for; `retrieval_tracks` and
        `retrieval_others_tracks` by language.
    """
    from keras_msd.evaluate import cost

    row: dict[str, Any] = cost(encoder) if hasattr(encoder, "model") else {}
    row |= score_sts(recipe, data_dir, encoder, sts_languages(recipe), full)
    if full:
        _mined(recipe, data_dir, encoder, row)
        wanted = {"retrieval": list(recipe.evaluate.retrieval)}
        if others:
            wanted["retrieval_others"] = other_tatoeba(recipe, data_dir)
        for name, codes in wanted.items():
            row |= _retrieval(name, codes, data_dir, encoder)
    return row


def score_teacher_row(
    recipe: Recipe, data_dir: Path, teacher: Any, encoder: Any | None
) -> dict[str, Any]:
    """Return a teacher's scores in the languages it knows, and its size.

    Args:
        recipe: Says which sets are read, and whether it knows more than English.
        data_dir: Holds `sts/`.
        teacher: Has `encode`.
        encoder: The teacher as an encoder of ours, None if it is none.
    """
    from keras_msd.evaluate import cost

    sizes = cost(encoder) if encoder is not None else {}
    if recipe.teacher.multilingual:
        return sizes | score_row(recipe, data_dir, teacher)
    return sizes | score_sts(recipe, data_dir, teacher, languages=[])


def _retrieval(
    name: str, codes: list[str], data_dir: Path, encoder: Any
) -> dict[str, Any]:
    from keras_msd.evaluate import retrieval_folder

    if not codes:
        return {}
    found = retrieval_folder(encoder, data_dir / "tatoeba", codes)
    return {name: found["precision"], f"{name}_tracks": found["tracks"]}


def _mined(recipe: Recipe, data_dir: Path, encoder: Any, row: dict[str, Any]) -> None:
    """Add the scores of the large sets, and their languages to the tracks."""
    ours = recipe.evaluate
    if ours.un:
        from keras_msd.evaluate.un import un_folder

        found = un_folder(encoder, data_dir / "un", ours.un)
        row["un"] = found["precision"]
        tracks = {name.replace("en-", "un-"): v for name, v in found["tracks"].items()}
        row["tracks"] |= tracks
    if ours.bucc:
        from keras_msd.evaluate.bucc import bucc_folder

        # Threshold and F1 on the training split, as the papers report it.
        found = bucc_folder(encoder, data_dir, ours.bucc)
        row["bucc"] = found["f1"]
        row["tracks"] |= {
            f"bucc-{name.removesuffix('-en')}": v for name, v in found["tracks"].items()
        }
