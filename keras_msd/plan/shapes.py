"""The shapes of a recipe's models, found without their weights where they are known."""

from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError
from keras_msd.files import read_toml
from keras_msd.models.config import EncoderConfig
from keras_msd.recipes.schema.recipe import Recipe, StudentSettings
from keras_msd.starts.closed_form import IDENTITY

PUBLISHED = read_toml(Path(__file__).with_name("shapes.toml"))


class Shapes(NamedTuple):
    """What a recipe trains, and from what.

    Attributes:
        teacher: The teacher's, None where it only gives vectors.
        teacher_dim: Width of its vectors.
        assistant: None where there is none.
        students: By the names of their folders.
    """

    teacher: EncoderConfig | None
    teacher_dim: int
    assistant: EncoderConfig | None
    students: dict[str, EncoderConfig]

    @property
    def vocabulary_size(self) -> int:
        """Rows of the word table that all trained models have."""
        models = [self.assistant, *self.students.values()]
        return next(it.vocabulary_size for it in models if it is not None)


def recipe_shapes(recipe: Recipe) -> Shapes:
    """Return the shapes of a recipe's models.

    Those of encoders that recipes of ours name are in shapes.toml; others are loaded.

    Raises:
        InputError: The teacher or the assistant cannot be loaded, or a setting does not
            fit.
    """
    teacher, dim = _teacher(recipe)
    assistant = _assistant(recipe, teacher, dim)
    students = {
        name: _student(recipe, settings, teacher, dim, assistant)
        for name, settings in recipe.student.each().items()
    }
    return Shapes(teacher, dim, assistant, students)


def branch_alone(config: EncoderConfig) -> EncoderConfig:
    """Return the shape of an encoder's word branch without the body, as it is trained.

    Args:
        config: Has a word branch.
    """
    changes: dict[str, Any] = {
        "num_layers": 0,
        "repeats": 1,
        "num_heads": 1,
        "intermediate_dim": 1,
        "hidden_dim": config.dim,
        "projection_dim": None,
        "word_branch": False,
    }
    return config.model_copy(update=changes | IDENTITY)


def _published(source: str, max_length: int) -> EncoderConfig | None:
    """Return the shape of a published encoder that is known."""
    fields = PUBLISHED.get(source)
    if fields is None:
        return None
    longest = min(max_length, fields["max_positions"])
    return EncoderConfig(max_length=longest, pad_id=0, **fields)


def _teacher(recipe: Recipe) -> tuple[EncoderConfig | None, int]:
    settings = recipe.teacher
    known = _published(settings.source, recipe.data.max_length)
    if known is not None:
        return known, known.dim
    from keras_msd.teachers.teacher import load_teacher, teacher_encoder

    encoder = teacher_encoder(settings.source, settings.pooling)
    if encoder is not None:
        return encoder.config, encoder.dim
    if settings.dim is not None:
        return None, settings.dim
    return None, load_teacher(settings.source).dim


def _vocabulary_size(recipe: Recipe, teacher: EncoderConfig | None) -> int:
    """Return the rows of a new model's word table."""
    settings = recipe.tokenizer
    if settings.vocabulary_size is not None:
        return settings.vocabulary_size
    if teacher is None:
        raise InputError(
            "A vocabulary of the teacher needs a teacher that is an encoder. Received: "
            f'tokenizer.source = "{settings.source}", teacher '
            f"`{recipe.teacher.source}`. Train one, or take another teacher."
        )
    return teacher.vocabulary_size


def _given(source: str, longest: int) -> EncoderConfig:
    """Return the shape of an encoder that exists."""
    known = _published(source, longest)
    if known is not None:
        return known
    from keras_msd.checkpoints.loading import load_encoder

    return load_encoder(source).config


def _assistant(
    recipe: Recipe, teacher: EncoderConfig | None, dim: int
) -> EncoderConfig | None:
    settings, longest = recipe.assistant, recipe.data.max_length
    if settings.source == "none":
        return None
    if settings.source != "new":
        given = _given(settings.source, longest)
        if settings.start != "body":
            return given
        # What an extended vocabulary has at most: both, beside each other.
        size = given.vocabulary_size + (recipe.tokenizer.vocabulary_size or 0)
    else:
        size = _vocabulary_size(recipe, teacher)
    rows = {"vocabulary_size": size, "pad_id": 0}
    if settings.start == "grow":
        if teacher is None:
            raise InputError(
                "An assistant grows from a teacher that is an encoder. Received: "
                f"`{recipe.teacher.source}`. Take another teacher or start."
            )
        changes: dict[str, Any] = {"max_length": longest, "max_positions": None}
        changes |= {"bottleneck_dim": None, "word_branch": settings.word_branch}
        if settings.word_branch:
            changes["bottleneck_dim"] = settings.bottleneck_dim
        changes |= rows | {"dropout": settings.dropout}
        return teacher.model_copy(update=changes)
    fields = settings.model_dump(exclude={"source", "start"}, exclude_none=True)
    narrow = (
        settings.start in ("ridge", "body") and fields.get("hidden_dim", dim) != dim
    )
    fields |= {"projection_bias": False} if narrow else {}
    fields = {"hidden_dim": dim, "max_length": longest} | fields | rows
    return EncoderConfig.from_dict(fields, "The assistant")


def _student(
    recipe: Recipe,
    settings: StudentSettings,
    teacher: EncoderConfig | None,
    dim: int,
    assistant: EncoderConfig | None,
) -> EncoderConfig:
    if assistant is None:
        return _thin_deep(recipe, settings, teacher, dim)
    repeats = settings.repeats or assistant.num_layers // settings.unit_layers
    changes: dict[str, Any] = {"num_layers": settings.unit_layers, "repeats": repeats}
    if settings.bottleneck_dim is not None:
        changes |= {"bottleneck_dim": settings.bottleneck_dim, "num_types": 1}
    return assistant.model_copy(update=changes)


def _thin_deep(
    recipe: Recipe, settings: StudentSettings, teacher: EncoderConfig | None, dim: int
) -> EncoderConfig:
    from keras_msd.recipes.steps.starts import thin_deep_shape

    shape = thin_deep_shape(settings)
    stage = settings.stage("teach_thin_deep", recipe.stages["teach_thin_deep"])
    whole = stage.feature == "distillation_first"
    fields = {"max_positions": 512, "num_types": 2}
    fields["projection_dim"] = dim if whole else shape["hidden_dim"]
    fields |= {"vocabulary_size": _vocabulary_size(recipe, teacher), "pad_id": 0}
    fields |= shape | {"max_length": recipe.data.max_length}
    return EncoderConfig.from_dict(fields, "The student")
