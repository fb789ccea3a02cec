"""Stage 3: the student imitates the assistant's vector of each side."""

from keras_msd.stages.stage import Stage, StageRecord, both_sides, the_assistant


class TeachStudent(Stage):
    """Each side imitates the assistant's vector of the same sentence.

    The loss is `mse(source, assistant(source)) + mse(target, assistant(target))`, where
    `target` is the translation.

    Targets: `assistant_source` and `assistant_target` `(n, dim)`, the assistant's
        vectors of the source side and of the translation.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 4.

    Example:
        >>> stage = msd.stages.TeachStudent(msd.testing.tiny_encoder())
        >>> stage.targets
        ('assistant_source', 'assistant_target')
    """

    goals = {"source": "assistant_source", "target": "assistant_target"}


RECORD = StageRecord(TeachStudent, guides=both_sides("assistant", the_assistant))
