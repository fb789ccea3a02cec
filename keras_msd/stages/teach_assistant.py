"""Stage 1: both sides of a pair imitate the teacher's vector of the source side."""

from keras_msd.stages.stage import OF_SOURCE, Stage, StageRecord


class TeachAssistant(Stage):
    """Both sides imitate the teacher's vector of the source side, usually English.

    The loss is `mse(source, teacher) + mse(target, teacher)`, where `target` is the
    translation. The teacher may read only English, so both terms use its vector of the
    source side. In another printing of equation 2, the second term has its vector of
    the translation. For that loss, give both terms the weight 0 and add a `LossTerm` of
    `FeatureDistillation` whose goals are the teacher's vectors of both sides.

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


RECORD = StageRecord(
    TeachAssistant, guides=OF_SOURCE, trains="assistant", label="stage 1"
)
