"""The chains that a page can ask, measure and publish: the lab's own, and every finished run below the folders of runs."""

from collections.abc import Mapping
from pathlib import Path

from evals.errors import LabError
from lab.services import Services
from lab.train.runs import find
from lab.ui.text import say
from training.models.manifest import FILE_NAME, OURS, chain_file, read_chain


def chains_of_runs(services: Services) -> Mapping[str, Path]:
    """Return the folders of finished runs that hold a chain, by the name that Train lists them under, newest first."""
    found = find(services.settings.training.runs, services.now())
    return {each.name: each.path for each in found if each.state == "finished" and (each.path / FILE_NAME).is_file()}


def chain_of(services: Services, name: str | None) -> str:
    """Return what the engine calls a chain of the page: "" for the lab's own, else its folder; LabError if there is none."""
    if not name:
        return ""
    if (folder := chains_of_runs(services).get(name)) is None:
        raise LabError(say("chain.gone", name=name))
    return str(folder)


def choices_of_chains(services: Services) -> list[tuple[str, str]]:
    """Return the chains as a list to choose from, the lab's own first; one that cannot be read is left out."""
    chain = services.settings.chain
    choices = [(say("chain.own", name=chain if chain in OURS else Path(chain).name), "")]
    for name, folder in chains_of_runs(services).items():
        if folder.resolve() == chain_file(chain).parent.resolve():
            continue
        try:
            stages = read_chain(folder).manifest.stages
        except LabError:
            continue
        choices.append((say("chain.run", name=name, stages=" → ".join(each.name for each in stages)), name))
    return choices
