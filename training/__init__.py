"""Where torch lives: data for trainers, the training stages, the base model and the adapter chain."""

import logging
import warnings

# What a reader can do nothing about: a package that nobody here needs, TRL's old names of an option of transformers.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing", FutureWarning)
