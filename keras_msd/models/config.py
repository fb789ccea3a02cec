"""Configuration of an encoder's network, validated."""

from typing import Any, Literal

import pydantic

from keras_msd.checks import InputError, divides, findings
from keras_msd.choices import MAX_LENGTH, Activation, Pooling
from keras_msd.io.files import DEPTH
from keras_msd.usage import Usage


class EncoderConfig(Usage):
    """Fields of an encoder: `embedding` -> `body` -> pooling -> projection -> norm.

    `num_layers` counts layers that own weights; depth is `num_layers * repeats`.
    With `num_layers=0` there is no body: the vector is the pooled embedding.
    `head_dim` is the dimension of an attention head, None for `hidden_dim / num_heads`.
    `bottleneck_dim` is the width of the word table, None for `hidden_dim`.
    `max_length` is the longest sentence in tokens, start and end included;
    `max_positions` the tokens that the position table has room for, None for
    `max_length` (a published checkpoint often has more rows than it uses).
    `prompts`, `default_prompt_name` and `similarity_fn_name` are those of `Usage`.

    Example:
        >>> config = msd.models.EncoderConfig(
        ...     vocabulary_size=90, hidden_dim=16, num_layers=2, num_heads=2,
        ...     intermediate_dim=32, repeats=3, pad_id=1,
        ... )
        >>> config.depth, config.pooling
        (6, 'mean')
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    vocabulary_size: int = pydantic.Field(ge=1)
    hidden_dim: int = pydantic.Field(ge=1)
    num_layers: int = pydantic.Field(ge=0)
    num_heads: int = pydantic.Field(ge=1)
    intermediate_dim: int = pydantic.Field(ge=1)
    repeats: int = pydantic.Field(default=1, ge=1)
    bottleneck_dim: int | None = pydantic.Field(default=None, ge=1)
    max_length: int = pydantic.Field(default=MAX_LENGTH, ge=2)
    max_positions: int | None = pydantic.Field(default=None, ge=2)
    num_types: int = pydantic.Field(default=1, ge=1)
    pad_id: int = pydantic.Field(ge=0)
    position_offset: int = pydantic.Field(default=0, ge=0)
    layer_norm_epsilon: float = pydantic.Field(default=1e-12, gt=0)
    activation: Activation = "gelu_erf"
    normalize_first: bool = False
    zero_residuals: bool = False
    embedding_layer_norm: bool = True
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    pooling: Pooling = "mean"
    projection_dim: int | None = pydantic.Field(default=None, ge=1)
    projection_bias: bool = True
    projection_activation: Literal["linear", "tanh"] = "linear"
    normalize: bool = True
    # Absent without a value, so that fingerprints of encoders without one stay.
    head_dim: int | None = pydantic.Field(
        default=None, ge=1, exclude_if=lambda head_dim: head_dim is None
    )

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> "EncoderConfig":
        if self.head_dim is None:
            divides({"num_heads": self.num_heads}, {"hidden_dim": self.hidden_dim})
        DEPTH.check(self.depth, "`num_layers` x `repeats`", "Give fewer.")
        if self.pad_id >= self.vocabulary_size:
            raise ValueError(
                "`pad_id` must be below `vocabulary_size`. Received: "
                f"pad_id={self.pad_id}, vocabulary_size={self.vocabulary_size}."
            )
        if (self.max_positions or self.max_length) < self.max_length:
            raise ValueError(
                "`max_positions` must be at least `max_length`. Received: "
                f"max_positions={self.max_positions}, max_length={self.max_length}."
            )
        return self

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.projection_dim or self.hidden_dim

    @property
    def key_dim(self) -> int:
        """Dimension of a head's queries, keys and values."""
        return self.head_dim or self.hidden_dim // self.num_heads

    @property
    def depth(self) -> int:
        """Number of layers that a sentence passes through, repeats included."""
        return self.num_layers * self.repeats

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str = "encoder") -> Any:
        """Make a config from plain values.

        Args:
            values: Field names and values.
            origin: Where they come from, named in the error.

        Raises:
            InputError: A key is unknown or missing, or a value does not fit.
        """
        try:
            return cls(**values)
        except pydantic.ValidationError as error:
            lines = findings(error, cls.model_fields)
            raise InputError(f"{origin}: " + " ".join(lines)) from error
