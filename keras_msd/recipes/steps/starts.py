"""Starts of a run: closed-form tables, the assistant before stage 1, the student."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.training import StudentSettings
from keras_msd.recipes.steps.data import both_sides


class Goals:
    """One goal vector per training sentence, read as it is needed.

    Both languages of a pair have the goal of the English line, so rows come twice.

    Args:
        rows: Gives float32 `(n, dim)` for rows `start` to `stop` of the English lines.
        count: Number of pairs.
        dim: Width of a goal.
    """

    def __init__(self, rows: Any, count: int, dim: int) -> None:
        self._rows, self._count = rows, count
        self.shape = (2 * count, dim)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(len(self))
        middle = self._count
        parts = []
        if start < middle:
            parts.append(self._rows(start, min(stop, middle)))
        if stop > middle:
            parts.append(self._rows(max(start - middle, 0), stop - middle))
        return np.concatenate(parts)


def fit_table(run: Run, folder: Path) -> None:
    """Fit the word table whose rows add up to the teacher's vectors.

    For an assistant that is grown also the one that adds up to the teacher's input
    rows: both from a single factorisation.
    """
    from keras_msd.starts.grow import input_sums
    from keras_msd.starts.ridge import fit_ridge

    store, dim = run.store(run.teacher), run.teacher.dim
    teacher = run.teacher_encoder if _grows(run) else None

    def rows(start: int, stop: int) -> np.ndarray:
        english = run.texts.texts("source", start, stop)
        vectors = store.targets(english)
        if teacher is None:
            return vectors
        return np.concatenate([vectors, input_sums(teacher, english)], axis=1)

    width = dim + (teacher.config.hidden_dim if teacher else 0)
    table = fit_ridge(
        _token_lists(run),
        Goals(rows, len(run.texts), width),
        run.tokenizer.vocabulary_size,
        run.recipe.starts.ridge,
    )
    np.save(folder / "table.npy", table[:, :dim])
    if teacher:
        np.save(folder / "input_table.npy", table[:, dim:])


def _grows(run: Run) -> bool:
    return run.given_assistant is None and run.recipe.assistant.start == "grow"


def closed_form(run: Run, folder: Path, width: int | None) -> None:
    """Keep the closed form, at full width or through a bottleneck."""
    from keras_msd.starts.closed_form import closed_form_encoder
    from keras_msd.starts.svd import bottleneck

    word, projection = fitted_table(run), None
    if width is not None:
        word, projection = bottleneck(word, width, run.frequencies)
    encoder = closed_form_encoder(
        run.tokenizer, word, projection, max_length=run.recipe.data.max_length
    )
    encoder.save(folder / "encoder")


def start_assistant(run: Run, folder: Path) -> None:
    """Make the assistant that stage 1 trains, or take the one the recipe names."""
    if run.given_assistant is not None:
        run.given_assistant.save(folder / "encoder")
        return
    makers = {"random": _random, "ridge": _ridge, "grow": _grown}
    assistant = makers[run.recipe.assistant.start](run)
    assistant.save(folder / "encoder")


def untrained_student(
    run: Run, folder: Path, settings: StudentSettings, assistant: str
) -> None:
    """Build a student from the assistant that the step `assistant` left."""
    from keras_msd.models.student import build_student

    student = build_student(
        run.encoder(assistant),
        unit_layers=settings.unit_layers,
        bottleneck_dim=settings.bottleneck_dim,
        repeats=settings.repeats,
    )
    student.save(folder / "encoder")


def start_student(run: Run, folder: Path, student: str, assistant: str) -> None:
    """Give a student the nearest embedding block to its assistant's."""
    from keras_msd.starts.student import start_student as start

    encoder = run.encoder(student)
    scale = run.recipe.starts.branch_scale
    start(encoder, run.encoder(assistant), run.frequencies, scale)
    encoder.save(folder / "encoder")


def take_branch(run: Run, folder: Path, step: str) -> None:
    """Keep the word branch of a step's encoder as an encoder of its own."""
    from keras_msd.starts.branch import branch_encoder

    branch_encoder(run.encoder(step), run.frequencies).save(folder / "encoder")


def give_branch(run: Run, folder: Path, step: str, branch: str) -> None:
    """Put the tuned branch of the step `branch` back into a step's encoder."""
    from keras_msd.starts.branch import set_branch

    encoder = run.encoder(step)
    set_branch(encoder, run.encoder(branch), run.frequencies)
    encoder.save(folder / "encoder")


def fitted_table(run: Run, name: str = "table") -> np.ndarray:
    """Return a word table of the step `ridge`."""
    return np.load(run.folder.stage("ridge") / f"{name}.npy")


def _token_lists(run: Run) -> Iterator[list[int]]:
    for chunk in both_sides(run):
        yield from run.tokenizer.encode_plain(chunk)


def _fields(run: Run) -> dict[str, Any]:
    ours = run.recipe.assistant.model_dump(exclude={"source", "start"})
    fields = {key: value for key, value in ours.items() if value is not None}
    return fields | {"max_length": run.recipe.data.max_length}


def _random(run: Run) -> Any:
    from keras_msd.models.encoder import new_encoder

    return new_encoder(run.tokenizer, **_fields(run))


def _ridge(run: Run) -> Any:
    """Return the closed form under a body that begins as the identity.

    A body narrower than the vectors takes the table's SVD: its rows under the body, the
    projection after it.
    """
    from keras_msd.starts.closed_form import closed_form_encoder
    from keras_msd.starts.svd import bottleneck

    fields = _fields(run)
    table = fitted_table(run)
    hidden = run.recipe.assistant.hidden_dim or table.shape[1]
    width = fields.pop("bottleneck_dim", None)
    fields.pop("hidden_dim", None)
    if hidden == table.shape[1]:
        if width is None:
            return closed_form_encoder(run.tokenizer, table, **fields)
        parts = bottleneck(table, width, run.frequencies)
        return closed_form_encoder(run.tokenizer, *parts, **fields)
    if width is not None:
        raise InputError(
            'An assistant with `start = "ridge"` has a bottleneck or a body narrower '
            f"than the teacher, not both. Received: bottleneck_dim={width}, "
            f"hidden_dim={hidden}, teacher {table.shape[1]}. Leave the first out."
        )
    word, projection = bottleneck(table, hidden, run.frequencies)
    encoder = closed_form_encoder(
        run.tokenizer, word, **fields | {"projection_bias": False}
    )
    values = encoder.weights() | {"projection/kernel": projection}
    encoder.set_weights(values, origin="the ridge start")
    return encoder


def _grown(run: Run) -> Any:
    from keras_msd.starts.grow import grow_assistant

    ours = run.recipe.assistant
    teacher: Any = run.teacher_encoder  # a check before the run asks for one
    return grow_assistant(
        teacher,
        run.tokenizer,
        fitted_table(run, "input_table"),
        run.recipe.data.max_length,
        branch_table=fitted_table(run) if ours.word_branch else None,
        bottleneck_dim=ours.bottleneck_dim,
        frequencies=run.frequencies,
        body_weight=run.recipe.starts.body_weight,
        dropout=ours.dropout,
    )
