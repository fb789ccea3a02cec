"""Stages 1 and 3: an encoder imitates a teacher in both languages."""

from keras_msd.stages.stage import Stage


class TeachAssistant(Stage):
    """Both sides imitate the teacher's vector of the source side, usually English.

    The loss is `mse(source, teacher) + mse(target, teacher)`, where `target` is the
    translation. The teacher may read only English, so both terms use its vector of the
    source side.

    Targets: `teacher` `(n, dim)`, vectors of the source side.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 2; Reimers & Gurevych 2020.

    Example:
        >>> stage = msd.stages.TeachAssistant(msd.testing.tiny_encoder())
        >>> stage.targets
        ('teacher',)
    """

    goals = {"source": "teacher", "target": "teacher"}


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
