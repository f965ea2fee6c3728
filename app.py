"""Start the lab: on a Hugging Face Space this file is run as it is, elsewhere use `assay lab`."""

import os

from lab.commands.lab import open_lab
from lab.gpu import prepare
from lab.settings import from_environment


def main() -> None:
    """Bring what a Space lacks, and serve the lab until it is stopped."""
    prepare(os.environ)
    open_lab(from_environment())


if __name__ == "__main__":
    main()
