"""A student: a narrow word table and the assistant's first layers, run repeatedly."""

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import build_model


def build_student(
    assistant: Encoder,
    unit_layers: int = 3,
    bottleneck_dim: int | None = 128,
    repeats: int | None = None,
) -> Encoder:
    """Make a student from an assistant.

    The student's unit is a copy of the assistant's first `unit_layers` layers. Its
    embedding block is new and random with a bottleneck, and the assistant's own
    without one. Copied weights live in new layers: the assistant never changes.

    Args:
        assistant: An encoder with `repeats=1`.
        unit_layers: Layers that own weights (M).
        bottleneck_dim: Width of the word table (B), or None for the assistant's table.
        repeats: Passes over the unit (R); None for the assistant's depth.

    Raises:
        InputError: The depth is not divisible by `unit_layers`, or the assistant has
            fewer layers.

    Source: Ding et al. 2022, stages 2 and 3; bottleneck and parameter recurrence.
    """
    config = assistant.config
    if unit_layers > config.num_layers or config.repeats != 1:
        raise InputError(
            "`unit_layers` must be at most the assistant's layers, each with weights "
            f"of its own. Received: unit_layers={unit_layers}, assistant layers="
            f"{config.num_layers}, assistant repeats={config.repeats}."
        )
    if repeats is None:
        checks.divides({"unit_layers": unit_layers}, {"depth": config.num_layers})
        repeats = config.num_layers // unit_layers
    checks.at_least(1, unit_layers=unit_layers, repeats=repeats)
    same_table = bottleneck_dim is None
    if same_table:
        bottleneck_dim = config.bottleneck_dim
    student_config = type(config).from_dict(
        config.model_dump()
        | {
            "num_layers": unit_layers,
            "repeats": repeats,
            "bottleneck_dim": bottleneck_dim,
            "num_types": config.num_types if same_table else 1,
        },
        origin="build_student",
    )
    student = Encoder(build_model(student_config), assistant.tokenizer, student_config)
    given = assistant.weights()
    values = student.weights()
    for path in values:
        fresh = path.startswith("embedding/") or path == "word_branch/projection"
        if same_table or not fresh:
            values[path] = given[path]
    student.set_weights(values, origin="the assistant")
    return student
