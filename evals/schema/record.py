"""What every record shares: immutable, strict, and the kinds of value that several of them hold."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Direction = Literal["UP", "DOWN"]
Choice = Literal["left", "right", "tie", "both_bad"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Record(BaseModel):
    """Base for every record: immutable, and unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
