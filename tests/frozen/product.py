"""Everything of the product that the frozen tables reach, besides its data files: mend imports here alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

HUB_TOKEN = "hf_frozen"


def command_line() -> Any:
    """Return the Typer application behind `assay`."""
    from lab.cli import app

    return app


def gold() -> Iterator[tuple[str, Any]]:
    """Yield every question of ours, with the name of its data set: id, prompt, answer, ground_truth."""
    from evals.questions import DATASETS, load_questions

    for name, rows in DATASETS.items():
        yield from ((name, row) for row in rows())
    yield from (("codons-and-enzymes", row) for row in load_questions("codons-and-enzymes"))


def find_question(wording: str) -> Any:
    """Return our question with this wording, or None."""
    from evals.questions import find

    return find(wording)


def page(folder: Path, tab: str) -> Any:
    """Return the lab's page with one tab alone, as a Gradio app. Loads no model and opens no database."""
    from lab.app import build_app
    from lab.services import build_services
    from lab.settings import from_environment

    places = {"ASSAY_DATABASE_URL": f"sqlite:///{folder / 'page.db'}", "ASSAY_CACHE": str(folder)}
    return build_app(build_services(from_environment(places)), (tab,))


def pages() -> dict[str, str]:
    """Return the tab of each page: of the lab's tabs by name, and of the vote arena."""
    from lab.app import WITH_TAB, WITH_VISITOR
    from lab.arena import TABS

    return {**{f"tab {name}": name for name in (*WITH_VISITOR, *WITH_TAB)}, "arena": TABS[0]}


def local_hub(folder: Path) -> Any:
    """Return a Hub on this machine, to be entered; it has a `url`."""
    from hub.local import LocalHub, Options

    return LocalHub(folder, Options(tokens={HUB_TOKEN: "tester"}, organisations=("org",)))


def read_run_record(file: Path) -> dict[str, Any]:
    """Return run.json as today's code understands it."""
    from evals.schema import RunRecord

    return RunRecord.model_validate_json(file.read_bytes()).model_dump(mode="json")


def space_file(name: str, file: str) -> str:
    """Return a file of a Space as it would be published."""
    from hub.spaces import bundle_folder, pack_space

    return pack_space(bundle_folder(name), f"org/{name}", {}).parts[file].read().decode()
