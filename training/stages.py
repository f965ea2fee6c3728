"""The stages by name; a new one is a line in `STAGES`. Its file has its settings on top and brings in no torch."""

from training.config import StageSettings
from training.dpo import DpoSettings
from training.grpo import GrpoSettings
from training.kto import KtoSettings
from training.refiner import RefinerSettings
from training.review import ReviewSettings
from training.reward import RewardSettings
from training.sft import SftSettings

STAGES: dict[str, type[StageSettings]] = {
    "sft": SftSettings,
    "dpo": DpoSettings,
    "kto": KtoSettings,
    "reward": RewardSettings,
    "grpo": GrpoSettings,
    "review": ReviewSettings,
    "refiner": RefinerSettings,
}
