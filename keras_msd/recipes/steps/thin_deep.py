"""Starts of LEALLA's runs: thin, deep students and the reduced teacher."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import one_of
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.training import ReductionSettings, StudentSettings
from keras_msd.recipes.steps.starts import fitted_table


def thin_deep_student(
    run: Run, folder: Path, shape: dict[str, Any], output_dim: int | None = None
) -> None:
    """Make a thin, deep student with random weights.

    Args:
        run: The run.
        folder: The step's folder.
        shape: As `thin_deep_shape` gives it.
        output_dim: Makes its dense layer linear, with so many numbers.
    """
    from keras_msd.models.thin_deep import thin_deep

    fields = shape | {"max_length": run.recipe.data.max_length}
    if output_dim is not None:
        fields |= {"projection_dim": output_dim, "projection_activation": "linear"}
    thin_deep(run.tokenizer, row=None, **fields).save(folder / "encoder")


def thin_deep_shape(settings: StudentSettings) -> dict[str, Any]:
    """Return the fields of a student's row, changed by those that it names."""
    from keras_msd.models.thin_deep import ROWS

    shape: dict[str, Any] = {}
    if settings.row is not None:
        one_of(ROWS, row=settings.row)
        shape = ROWS[settings.row]._asdict()
    names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim", "dropout")
    own = {name: getattr(settings, name) for name in names}
    return shape | {name: value for name, value in own.items() if value is not None}


def ridge_student(
    run: Run, folder: Path, shape: dict[str, Any], output_dim: int | None = None
) -> None:
    """Make a thin, deep student that begins as the closed form.

    Word rows are the SVD of the ridge table, and the body begins as the identity. The
    start token would then hold no word of its sentence: the vector is the mean of all
    tokens through a dense layer that is linear and at first keeps cosines as they are.

    Args:
        run: The run.
        folder: The step's folder.
        shape: As `thin_deep_shape` gives it.
        output_dim: The teacher's width, where the dense layer has as many numbers.
    """
    from keras_msd.models.thin_deep import thin_deep
    from keras_msd.starts.closed_form import IDENTITY, set_closed_form
    from keras_msd.starts.svd import bottleneck

    hidden = shape["hidden_dim"]
    encoder = thin_deep(
        run.tokenizer,
        row=None,
        max_length=run.recipe.data.max_length,
        pooling="mean",
        projection_dim=output_dim or hidden,
        projection_activation="linear",
        **IDENTITY | shape,
    )
    word, projection = bottleneck(fitted_table(run), hidden, run.frequencies)
    kernel = np.eye(hidden, dtype=np.float32) if output_dim is None else projection
    given = {"embedding/word": word, "projection/kernel": kernel}
    set_closed_form(encoder, given)
    encoder.save(folder / "encoder")


def reduce_teacher(
    run: Run,
    folder: Path,
    settings: ReductionSettings,
    width: int | None = None,
    like: str | None = None,
) -> dict[str, Any]:
    """Fit a dense layer after the teacher and keep it as `reduction.npy`.

    Args:
        run: The run.
        folder: The step's folder.
        settings: The stage's.
        width: Numbers that are left.
        like: Instead of `width`: the step whose encoder has as many.
    """
    from keras_msd.starts.dimension_reduction import reduce_dimensions

    table = run.table(run.recipe.stages.teach_thin_deep)
    store = run.store(run.teacher)
    other = "target" if run.recipe.teacher.multilingual else "source"
    dim = width or run.encoder(like or "").dim
    matrix = reduce_dimensions(
        StoredVectors(table, store, "source"),
        StoredVectors(table, store, other),
        dim,
        table.groups(np.arange(len(table))),
        **settings.model_dump(exclude={"skip", "widths"}),
        seed=run.seed("reduce_teacher"),
    )
    np.save(folder / "reduction.npy", matrix)
    return {"dim": dim}


class StoredVectors:
    """A guide's vectors of one side of the pairs, read as they are needed."""

    def __init__(self, table: Any, store: Any, side: str) -> None:
        from keras_msd.data.batch_sources import guide_rows

        self._store, self._where = store, guide_rows(table, store, side)
        self.shape = (len(self._where), store.dim)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return self._store.vectors(self._where[rows])
