"""Where torch lives: data for trainers, the training stages, the base model and the adapter chain."""

import logging
import warnings


def quiet() -> None:
    """Silence what libraries say and the person who reads it can do nothing about."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of a package that nobody here needs
    warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing", FutureWarning)  # TRL's old names of it
