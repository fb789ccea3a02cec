"""Pairs of sentences with a gold similarity, scaled to [0, 1] by a named rule."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.evaluate.sts import Row, read_sts

# Name -> (lowest gold score, highest, what is taken off, what divides the rest).
GOLD_SCALES = {"over_5": (0.0, 5.0, 0.0, 5.0), "from_1": (1.0, 5.0, 1.0, 4.0)}
FORMULAS = {"over_5": "gold / 5", "from_1": "(gold - 1) / 4"}


def scale_gold(
    gold: Sequence[float] | np.ndarray, scale: str, origin: str = "gold scores"
) -> np.ndarray:
    """Return gold scores as similarities in [0, 1], float32 `(n,)`.

    "over_5" is `gold / 5`, for scores from 0 to 5 such as those of STSb; "from_1" is
    `(gold - 1) / 4`, for scores from 1 to 5 such as those of SICK, ASSIN and ASSIN 2.
    Scores from 1 to 5 also fit "over_5", whose similarities are then at least 0.2.

    Args:
        gold: Scores `(n,)`.
        scale: "over_5" or "from_1".
        origin: Where the scores come from, named in the error.

    Raises:
        InputError: The scale is unknown, or a score is outside its range.
    """
    checks.one_of(GOLD_SCALES, scale=scale)
    lowest, highest, first, divisor = GOLD_SCALES[scale]
    scores = np.asarray(gold, np.float64)
    fits = (scores >= lowest) & (scores <= highest)
    if not fits.all():
        row = int(np.flatnonzero(~fits)[0])
        others = [
            name
            for name, (low, high, *_) in GOLD_SCALES.items()
            if ((scores >= low) & (scores <= high)).all()
        ]
        repair = f'Take "{others[0]}".' if others else "Bring the scores to that range."
        raise InputError(
            f'{origin}: the scale "{scale}" is {FORMULAS[scale]} and needs scores from '
            f"{lowest:g} to {highest:g}. Received: {scores[row]:g} in row {row + 1} "
            f"({int((~fits).sum())} of {len(scores)} do not fit). {repair}"
        )
    return ((scores - first) / divisor).astype(np.float32)


def scaled_rows(
    rows: Iterable[Row], scale: str, origin: str = "gold scores"
) -> list[Row]:
    """Return `(gold, sentence 1, sentence 2)` with scaled gold; see `scale_gold`."""
    rows = list(rows)
    gold = scale_gold([row[0] for row in rows], scale, origin)
    return [
        (float(score), first, second)
        for score, (_, first, second) in zip(gold, rows, strict=True)
    ]


def read_scored(path: str | Path, scale: str) -> list[Row]:
    """Read an STS file, gold scaled.

    Args:
        path: A `.tsv.gz` file: score TAB sentence 1 TAB sentence 2.
        scale: "over_5" or "from_1", see `scale_gold`.

    Raises:
        InputError: The file is missing or broken, or its scores do not fit the scale.
    """
    return scaled_rows(read_sts(path), scale, str(path))
