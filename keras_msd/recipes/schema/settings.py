"""What all sections of a recipe share: a frozen model and kinds of numbers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Words = Annotated[tuple[str, ...], Field(strict=False)]


class Settings(BaseModel):
    """A section: nothing changes after reading, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
