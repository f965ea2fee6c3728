"""Who takes part in Compare beside the stages of the lab's own chain: other chains, exported folders, hosted models."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evals.errors import LabError
from lab.services import Services, is_hosted
from lab.ui.text import say
from training.models.manifest import BARE, read_chain

POLL_SECONDS = 0.5


def add_entrant(services: Services, name: str) -> Iterator[str]:
    """Let a model take part in Compare of this running lab; yield how far loading is, in words, until it is there.

    `name` is a run folder, a chain.json, base:FOLDER for an exported one, or NAME=URL#MODEL for one behind a server
    (`assay chain serve`). It is kept, and loaded again when the lab starts. LabError for what is none of these, cannot be
    loaded, or is not reached.
    """
    name = name.strip()
    if is_hosted(name):
        from training.serve.hosted import read_hosted

        read_hosted([name])
    elif not name.startswith(BARE):
        read_chain(name)
    services.engine.start(name)
    while (status := services.engine.status_of(name)).state == "loading":
        yield say("line.loading.entrant", percent=f"{status.share:.0%}", message=status.message)
        time.sleep(POLL_SECONDS)
    if status.state != "ready":
        raise LabError(status.message)
    if problem := unheard(services, name):
        raise LabError(say("compare.entrants.unreached", problem=problem))
    services.store.keep_entrant(name)
    yield say("compare.entrants.added", name=name.partition("=")[0])


def joined(services: Services, own: Any) -> "Joined":
    """Return the lab's own chain with all that take part beside it and are in memory."""
    there = [name for name in services.store.entrants() if services.engine.status_of(name).state == "ready"]
    return Joined(own, [services.engine.chain(name) for name in there])


def unheard(services: Services, name: str) -> str:
    """Return why one who was let in does not answer, "" for one that does; a server is asked. What is not there is loaded."""
    status = services.engine.status_of(name)
    if status.state == "idle":  # another process let it in
        services.engine.start(name)
    if status.state != "ready":
        return say("compare.entrants.loading") if status.state in ("idle", "loading") else status.message
    hosted = (services.engine.chain(name).hosted or {}).values() if is_hosted(name) else ()
    for each in hosted:
        each.silent_until = 0.0
        if problem := each.client.run(each.client.unreachable()):
            return problem
    return ""


def listed(services: Services) -> list[tuple[str, str]]:
    """Return a line on the state of each who was let in, and its name."""
    found = [(name, unheard(services, name)) for name in services.store.entrants()]
    return [
        (say(f"compare.entrants.{'silent' if why else 'answers'}", name=name, why=why), name) for name, why in found
    ]


def last_stage(services: Services, name: str) -> str:
    """Return what the last stage of one who takes part is called in Compare."""
    chain = services.engine.chain(name)
    checksum = chain.stage_checksums[chain.stages[-1]]
    there = joined(services, services.engine.chain()).stage_checksums
    return next(stage for stage, other in there.items() if other == checksum)


class Joined:
    """Chains that answer side by side, all given the conversation of the first; its stages keep their names.

    Those of another are called stage@chain, a hosted model by its own name; who is there already, by checksum, is not
    there twice, and a server that was silent when it was asked last is left out for a while.
    """

    def __init__(self, own: Any, others: Sequence[Any]) -> None:
        self._own = own
        self._names: dict[str, str] = {}
        self.homes: dict[str, Any] = {}
        self.stage_checksums: Mapping[str, str] = {}
        for chain in (own, *others):
            hosted = chain.hosted or {}
            heard = (each for each in chain.stages if each not in hosted or not hosted[each].is_silent)
            for stage, checksum in ((each, chain.stage_checksums[each]) for each in heard):
                name = stage
                if chain is not own and stage not in hosted:
                    name = f"{stage}@{chain.manifest.name.removeprefix(BARE)}"
                if chain is own or checksum not in self.stage_checksums.values():
                    name = f"{name} {checksum[:6]}" if name in self.homes else name
                    self.homes[name], self._names[name] = chain, stage
                    self.stage_checksums = {**self.stage_checksums, name: checksum}
        self.stages = tuple(self.homes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def stream(self, prompt: Any, stages: Sequence[str], sampling: Any, stop: Any, *form: Any) -> Iterator[Any]:
        """Yield pieces as `Writer.stream` does, of each chain in turn."""
        running = []
        for chain in dict.fromkeys(self.homes[stage] for stage in stages):
            theirs = {self._names[stage]: stage for stage in stages if self.homes[stage] is chain}
            running.append((theirs, iter(chain.stream(prompt, tuple(theirs), sampling, stop, *form))))
        while running:
            for theirs, pieces in list(running):
                if (piece := next(pieces, None)) is None:
                    running.remove((theirs, pieces))
                else:
                    yield replace(piece, stage=theirs[piece.stage])
