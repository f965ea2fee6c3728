"""A staged review behind any server: a summary, concerns section by section, one list, and what the paper contradicts taken out.

Every stage is asked of the same model, under the instructions and in the form of a review in one go; the words are data
(`evals/review/staged.toml`). The last stage drops what the paper contradicts by the model, with the sentence.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources

from evals.papers import read_article
from evals.review.parse import parse
from evals.review.prompt import MOST, conversation, prompt_sha256
from evals.schema import Message
from evals.schema.reviewruns import EngineRecord
from evals.schema.reviews import Concern
from training.judge.client import Reply
from training.judge.concerns import ConcernJudge
from training.judge.prompts import HttpSettings, ServerSettings
from training.reviewer.engine import Asking, Room, merged
from training.reviewer.remote import HELD, ServerEngine


class StagedEngine(ServerEngine):
    """Reviews each part of a paper in stages; errors are those of `ServerEngine`."""

    def __init__(self, settings: ServerSettings, asking: Asking, room: Room) -> None:
        super().__init__(settings, asking, room)
        self._judge = ConcernJudge(
            HttpSettings(settings.base_url, self.model, settings.key_variable, settings.allow_remote)
        )
        self.dropped: list[str] = []
        """Concerns that the paper contradicts."""

    def record(self) -> EngineRecord:
        """Return who answers, with the checksum of the words of all stages, and how many concerns were dropped."""
        known = super().record()
        words = f"{prompt_sha256()}\n{json.dumps(words_of(), sort_keys=True)}"
        more = (f"{len(self.dropped)} concern(s) that the paper contradicts were dropped",) if self.dropped else ()
        sha256 = hashlib.sha256(words.encode()).hexdigest()
        return known.model_copy(update={"prompt_sha256": sha256, "substitutions": (*known.substitutions, *more)})

    def answer(self, requests: Sequence[str], told: Callable[[int], None] | None = None) -> list[Reply]:
        """Return one reply per request, each the verified list as JSON; one whose stages fail has their error."""
        return [self._reviewed(each.partition("\n\n")[2]) for each in requests]

    def _reviewed(self, paper: str) -> Reply:
        words = words_of()
        asked = (
            Message(role="system", content=words["summary_system"]),
            Message(role="user", content=words["summary"].format(paper=paper)),
        )
        summary = self.asked([asked], HELD[-1:])[0]
        if summary.error:
            return summary
        head, *sections = paper.split("\n\n## ")
        shown = [f"## {each}" for each in sections if len(each.split()) > 20] or [head]
        replies = self.asked(
            [conversation(words["section"].format(summary=summary.text, section=each)) for each in shown]
        )
        if failed := next((each for each in replies if each.error), None):
            return failed
        found, _ = merged([parse("", each.text).concerns for each in replies])
        if len(shown) > 1 and found:
            said = words["merge"].format(summary=summary.text, concerns=listed(found), most=min(15, MOST))
            reply = self.asked([conversation(said)])[0]
            if reply.error:
                return reply
            found = parse("", reply.text).concerns or found
        article = read_article(paper.encode(), "paper.md")
        grounded = self._judge.ground([each.text for each in found], article) if found else []
        last = [each for each, said in zip(found, grounded, strict=True) if said.status != "contradicted"]
        self.dropped += [each.text for each in found if each not in last]
        every = (summary, *replies)
        read = sum(each.tokens_read or 0 for each in every)
        return Reply(listed(last), "stop", read, sum(each.tokens_written or 0 for each in every))


def listed(concerns: Sequence[Concern]) -> str:
    """Return concerns as the JSON array that a reply is."""
    return json.dumps([each.model_dump() for each in concerns], ensure_ascii=False)


@cache
def words_of() -> dict[str, str]:
    """Return what each stage asks."""
    text = resources.files("evals.review").joinpath("staged.toml").read_text(encoding="utf-8")
    return {name: each.strip() for name, each in tomllib.loads(text).items()}
