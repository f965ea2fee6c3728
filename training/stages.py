"""The stages that can be trained, by name, with the settings of each. Knows nothing of torch."""

from collections.abc import Mapping

from training.config import DpoSettings, GrpoSettings, ReviewSettings, SftSettings, StageSettings
from training.refining.settings import RefinerSettings

STAGES: Mapping[str, type[StageSettings]] = {
    "sft": SftSettings,
    "dpo": DpoSettings,
    "grpo": GrpoSettings,
    "review": ReviewSettings,
    "refiner": RefinerSettings,
}
