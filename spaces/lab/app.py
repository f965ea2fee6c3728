"""The whole lab on a Hugging Face Space: the same as `assay lab`, with what a Space lacks brought first."""

import os

from lab.commands.lab import open_lab
from lab.gpu import prepare
from lab.settings import from_environment

if __name__ == "__main__":
    prepare(os.environ)
    open_lab(from_environment())
