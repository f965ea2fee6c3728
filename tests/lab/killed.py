"""A writer that is killed again and again: `python -m tests.lab.killed URL KILLS SEED` says what was lost, as JSON."""

import json
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime

from evals.preferences.annotations import usual_guidelines
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject
from lab.store.answers import Store
from tests.lab.votes import NOON, answer, vote

PROJECT = AnnotationProject(id="p", title="Liver", created_at=NOON, guidelines=usual_guidelines(), raters_per_item=2)
ITEM = AnnotationItem(id="i0", project="p", added_at=NOON, question="Up?", text="Up.", stage="sft", chain="embedded")
LONGEST_SECONDS = 0.06


def write_on(url: str, told: int, run: str) -> None:
    """Write answers, votes and every key of a rating until killed; each id is told once the store has it."""
    store = Store(url)
    for number in range(1_000_000):
        name = f"{run}-{number}"
        pair = [answer(f"{side}{name}", stage) for side, stage in (("l", "base"), ("r", "sft"))]
        store.add_answers(pair)
        os.write(told, f"answer l{name}\nanswer r{name}\n".encode())
        store.add_comparison(vote(*pair, "left", id=f"v{name}", rater=name))
        os.write(told, f"vote v{name}\n".encode())
        for state in ("draft", "submitted"):
            said = Annotation(
                item="i0", rater=name, state=state, updated_at=NOON, thumb="up", comment=f"{state} {name}"
            )
            store.annotations.save([said])
            os.write(told, f"annotation {state} {name}\n".encode())


def kill_again_and_again(url: str, kills: int, seed: int) -> dict[str, object]:
    """Return how many of the rows that were acknowledged before each kill are missing in the end."""
    draw, acknowledged = random.Random(seed), set[str]()
    for run in range(kills):
        ear, mouth = os.pipe()
        child = os.fork()
        if not child:
            os.close(ear)
            write_on(url, mouth, f"{seed}-{run}")
        os.close(mouth)
        with os.fdopen(ear) as heard:
            acknowledged.add(heard.readline().strip())
            time.sleep(draw.uniform(0, LONGEST_SECONDS))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            acknowledged |= {line.strip() for line in heard if line.endswith("\n")}
    store = Store(url, now=lambda: datetime.now(UTC))
    exported = store.annotations.latest(PROJECT.id)
    kept = {f"vote {each.id}" for each in store.comparisons()}
    kept |= {f"answer {each.id}" for each in store.answers(None, 10_000_000)}
    kept |= {f"annotation {state} {each.rater}" for each in exported for state in ("draft", each.state)}
    store.close()
    return {"kills": kills, "acknowledged": len(acknowledged), "lost": sorted(acknowledged - kept)}


if __name__ == "__main__":
    place, times, seed = sys.argv[1:]
    opened = Store(place)
    opened.annotations.keep_project(PROJECT)
    opened.annotations.add_items([ITEM])
    opened.close()
    assert "torch" not in sys.modules
    json.dump(kill_again_and_again(place, int(times), int(seed)), sys.stdout)
