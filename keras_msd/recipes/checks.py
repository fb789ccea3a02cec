"""What can be wrong with a run and is known before its hours of work."""

import sys
from typing import Any

from keras_msd.checks import InputError, divides
from keras_msd.data.batches import check_reads
from keras_msd.evaluate.rows import check_evaluation_files, check_registered
from keras_msd.recipes.resources import Run, check_corpora, development_pairs
from keras_msd.recipes.starts import MOST_PIECES, thin_deep_shape
from keras_msd.recipes.train import stage_data


def check(run: Run) -> None:
    """Check files, vocabulary and dimensions.

    Raises:
        InputError: A file is missing, the teacher does not read a language, the
            vocabulary is too large for a ridge regression, two dimensions differ, or a
            unit does not fit the assistant's depth.
    """
    if run.recipe.data.kind == "folder":
        _check_data(run)
    else:
        check_registered(run.recipe.settings())
    if run.recipe.assistant.source == "none":
        _check_thin_deep(run)
    else:
        _check_assistant(run)
    _check_vocabulary(run)


def _check_data(run: Run) -> None:
    files = run.training_pairs()  # each language and corpus is there
    if run.recipe.evaluate.artefacts:  # they are timed on held-out sentences
        development_pairs(run.recipe, run.data_dir)
    check_evaluation_files(run.recipe.settings(), run.data_dir)
    check_corpora("data.weights", [*(run.recipe.data.weights or {})], files)
    guides = {("source", run.teacher), (run.target_side, run.teacher)}
    for name, settings in run.recipe.stages_in_use():
        stage_data(run, name, settings).check_files()
        for guide, side in run.guides_of(settings).values():
            guides |= {(side, part) for part in run.guide_parts[guide]}
    for file in files:
        for side, guide in guides:
            check_reads(guide, side, file)


def check_stages(run: Run) -> None:
    """Check every stage against the pairs, once there are some.

    Raises:
        InputError: A stage names a corpus that is not there, or its data are too few
            for a batch or for its warm-up.
    """
    recipe = run.recipe
    for name, settings in recipe.stages_in_use():
        stage_data(run, name, settings).steps()
    size, pairs = recipe.reduction.batch_size or 0, len(run.texts)
    if recipe.reduction.widths and pairs < size:
        raise InputError(
            "`reduction.batch_size` must be at most the pairs. Received: batch_size="
            f"{size}, {pairs} pairs. Lower it, or give more."
        )


def _check_vocabulary(run: Run) -> None:
    recipe, source = run.recipe, run.recipe.teacher.source
    if recipe.tokenizer_source == "teacher" and run.teacher_encoder is None:
        raise InputError(
            "Without an assistant and `tokenizer.vocabulary_size` a recipe needs a "
            'teacher whose tokenizer can be read: "default", the folder of an encoder '
            f'or hf://. Received: teacher.source="{source}". Take such a teacher, or '
            "set `tokenizer.vocabulary_size`."
        )
    if run.pieces <= MOST_PIECES or not recipe.fits_table:
        return
    rule = (
        f"ridge regression takes at most {MOST_PIECES:,} pieces, as memory grows with "
        f"their square. Received: {run.pieces:,}."
    )
    if recipe.begins_at_table:
        raise InputError(
            f"A start by {rule} Give `assistant.trim.pieces`, a smaller "
            "`tokenizer.vocabulary_size`, or another `start`."
        )
    print(f"No closed forms: {rule}", file=sys.stderr)


def _check_thin_deep(run: Run) -> None:
    dim = run.teacher.dim
    for name, student in run.recipe.student.each().items():
        hidden = thin_deep_shape(student).get("hidden_dim")
        if student.start == "ridge" and not (hidden and hidden <= dim):
            raise InputError(
                'A closed-form start, `start = "ridge"`, has at most the teacher\'s '
                f"dimension, {dim}. Received: {name} of width {hidden}. Set "
                '`student.hidden_dim`, or `start = "random"`.'
            )


def _check_assistant(run: Run) -> None:
    """Check the assistant against the teacher, and the students against it."""
    settings, teacher = run.recipe.assistant, run.teacher
    existing: Any = run.named_assistant
    shape: Any = existing.config if existing else settings
    own = settings.projection_dim or settings.hidden_dim or teacher.dim
    dim = shape.dim if existing else own
    if teacher.dim != dim:
        raise InputError(
            "Teacher and assistant must have the same dimension, as one imitates the "
            f"other's embeddings. Received: teacher `{run.recipe.teacher.source}` "
            f"{teacher.dim}, assistant `{settings.source}` {dim}. Set "
            f"`assistant.projection_dim = {teacher.dim}`, or take a teacher of "
            f"dimension {dim}."
        )
    depth = shape.num_layers
    for name, student in run.recipe.student.each().items():
        if student.unit_layers > depth:
            raise InputError(
                f"`unit_layers` of {name} must be at most the assistant's layers. "
                f"Received: unit_layers={student.unit_layers}, num_layers={depth}. "
                "Lower it."
            )
        for field, kept in student.pruned.items():
            if kept > (most := getattr(shape, field)):
                raise InputError(
                    f"`{field}` of {name} must be at most the assistant's, whose "
                    f"layers are pruned. Received: {field}={kept}, the assistant's "
                    f"{most}. Lower it, or leave it out."
                )
        if student.repeats is None:
            unit = {f"unit_layers of {name}": student.unit_layers}
            divides(unit, {"num_layers": depth})
