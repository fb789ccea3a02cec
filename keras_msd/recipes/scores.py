"""Score rows of a run: what an encoder costs and how well it does."""

from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_folder
from keras_msd.recipes.schema import Recipe

KEPT = ("cross_lingual", "monolingual", "tracks")


def sts_languages(recipe: Recipe) -> list[str]:
    """Return the languages of the STS set, without English."""
    return list(recipe.evaluate.languages or recipe.data.languages)


def evaluation_files(recipe: Recipe, data_dir: Path) -> list[Path]:
    """Return the files that scoring reads."""
    ours = recipe.evaluate
    files = [
        data_dir / "sts" / f"{ours.sts}.{ours.split}.{language}.tsv.gz"
        for language in ["en", *sts_languages(recipe)]
    ]
    files += [
        data_dir / "tatoeba" / f"tatoeba.{code}-eng.tsv.gz" for code in ours.retrieval
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


def score_row(
    recipe: Recipe, data_dir: Path, encoder: Any, full: bool = True
) -> dict[str, Any]:
    """Return sizes and scores of one encoder.

    Args:
        recipe: Says which sets are read.
        data_dir: Holds `sts/` and `tatoeba/`.
        encoder: Has `encode`; with `model` its size is counted, too.
        full: All scores; otherwise the cross-lingual one alone, which reads a quarter
            of the sentences.

    Returns:
        `parameters`, `bytes`, `table_bytes` where known; `cross_lingual`,
        `monolingual`, `tracks`, `retrieval`, `un` and `bucc`, x100, as far as they were
        asked for.
    """
    from keras_msd.evaluate import cost

    row: dict[str, Any] = cost(encoder) if hasattr(encoder, "model") else {}
    row |= _sts(recipe, data_dir, encoder, full)
    if full:
        _mined(recipe, data_dir, encoder, row)
    if full and recipe.evaluate.retrieval:
        from keras_msd.evaluate import retrieval_folder

        found = retrieval_folder(
            encoder, data_dir / "tatoeba", recipe.evaluate.retrieval
        )
        row |= {"retrieval": found["precision"], "retrieval_tracks": found["tracks"]}
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
    from keras_msd.evaluate import cost, sts_folder

    ours = recipe.evaluate
    sizes = cost(encoder) if encoder is not None else {}
    if recipe.teacher.multilingual:
        return sizes | score_row(recipe, data_dir, teacher)
    scores = sts_folder(teacher, data_dir / "sts", ["en"], ours.split, ours.sts)
    return sizes | {key: scores[key] for key in KEPT if key in scores}


def _sts(recipe: Recipe, data_dir: Path, encoder: Any, full: bool) -> dict[str, Any]:
    from keras_msd.evaluate.sts import read_sts, sts_aligned

    ours = recipe.evaluate
    rows = {
        language: read_sts(
            data_dir / "sts" / f"{ours.sts}.{ours.split}.{language}.tsv.gz"
        )
        for language in ["en", *sts_languages(recipe)]
    }
    if not full:
        # English first sentences everywhere: no language is scored within itself.
        english = [row[1] for row in rows["en"]]
        rows = {
            language: [
                (gold, first, second)
                for (gold, _, second), first in zip(own, english, strict=True)
            ]
            for language, own in rows.items()
        }
    scores = sts_aligned(encoder, rows)
    kept = KEPT if full else ("cross_lingual",)
    row = {key: scores[key] for key in kept if key in scores}
    if not full:
        tracks = scores["tracks"].items()
        row["tracks"] = {name: v for name, v in tracks if "-" in name or name == "en"}
    return row


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
