"""How a model is meant to be used: what stands before texts, how vectors compare."""

from typing import Any, Self

import pydantic

from keras_msd.arrays import SIDES
from keras_msd.checks import InputError, findings
from keras_msd.choices import Similarity


class Usage(pydantic.BaseModel):
    """Prompts and similarity function of a model, as in sentence-transformers.

    `prompts` are texts that stand before a sentence, by name; `default_prompt_name`
    names the one that `encode` uses by itself. "query" and "document" are empty unless
    they are given. `similarity_fn_name` says how vectors are compared.

    Example:
        >>> from keras_msd.usage import Usage
        >>> usage = Usage(prompts={"query": "query: "}, default_prompt_name="query")
        >>> usage.similarity_fn_name
        'cosine'
    """

    model_config = pydantic.ConfigDict(frozen=True, strict=True)

    # Absent where they say nothing, so that fingerprints of other encoders stay.
    prompts: dict[str, str] = pydantic.Field(
        default={}, exclude_if=lambda prompts: not prompts
    )
    default_prompt_name: str | None = pydantic.Field(
        default=None, exclude_if=lambda name: name is None
    )
    similarity_fn_name: Similarity = pydantic.Field(
        default="cosine", exclude_if=lambda name: name == "cosine"
    )

    @pydantic.field_validator("prompts")
    @classmethod
    def _without_empty_sides(cls, prompts: dict[str, str]) -> dict[str, str]:
        return {name: it for name, it in prompts.items() if it or name not in SIDES}

    @pydantic.model_validator(mode="after")
    def _default_is_known(self) -> Self:
        name, known = self.default_prompt_name, {*SIDES, *self.prompts}
        if name is not None and name not in known:
            raise ValueError(
                "`default_prompt_name` must name one of the `prompts`, "
                f"{', '.join(sorted(known))}. Received: {name!r:.80}."
            )
        return self


def usage_fields(model: Any) -> dict[str, Any]:
    """Return the fields of a model's usage that are not the usual ones.

    Args:
        model: A `TextEncoder`.
    """
    fields = {name: getattr(model, name) for name in Usage.model_fields}
    return Usage(**fields).model_dump()


def usage_of(values: dict[str, Any], origin: str) -> Usage:
    """Return the usage that some settings hold among others.

    Args:
        values: The settings. What is None there has its default.
        origin: Where they come from, for messages.

    Raises:
        InputError: One of them does not fit.
    """
    given = {
        key: value
        for key in Usage.model_fields
        if (value := values.get(key)) is not None
    }
    try:
        return Usage(**given)
    except pydantic.ValidationError as error:
        wrong = " ".join(findings(error, Usage.model_fields))
        raise InputError(f"{origin}: {wrong}") from error
