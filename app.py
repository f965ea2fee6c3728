"""Start the lab: on a Hugging Face Space this file is run as it is, elsewhere use `assay lab`."""

import os

from lab.app import build_app, launch
from lab.services import build_services
from lab.settings import from_environment
from lab.space import bring_embedded_model


def main() -> None:
    """Build the services and the page, and serve it until it is stopped."""
    bring_embedded_model(os.environ)
    services = build_services(from_environment())
    launch(build_app(services), services)


if __name__ == "__main__":
    main()
