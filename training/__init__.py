"""Where torch lives: data for trainers, the training stages, the base model and the adapter chain."""

import logging
import signal
import sys
import warnings

# What a reader can do nothing about: a package that nobody here needs, TRL's old names of an option of transformers.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing", FutureWarning)
if sys.argv[:1] == [
    "-m"
]:  # a stage starts as a command: until it has loaded, a Ctrl-C ends it at once, without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
