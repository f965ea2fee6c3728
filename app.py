"""Start the lab: on a Hugging Face Space this file is run as it is, elsewhere use `assay lab`."""

from lab.app import build_app, launch
from lab.services import build_services
from lab.settings import from_environment


def main() -> None:
    """Build the services and the page, and serve it until it is stopped."""
    services = build_services(from_environment())
    launch(build_app(services), services)


if __name__ == "__main__":
    main()
