"""The refiner's reward: how close 256 rollouts come to the time their judge needs, and how fast scoring is alone.

A judge's server in a process of its own answers each request 50 ms after it came; 64 requests are under
way at a time, two for each rollout. The ideal is what the pauses alone would take: requests / 64 rounds of
50 ms. What the machine at hand makes of it is measured in turn by a bare client, which sends the same
requests from bytes at hand over 64 open connections and looks at no reply. Rewards are logged as in
training. Scoring reads, checks and settles answers with their verdicts at hand, on one core.
"""

import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from rich.table import Table

from evals.refine.bank import refiner_bank
from evals.refine.judge import compare_words
from evals.refine.score import prepare, settle
from evals.schema.refiner import RefinerRecord, RewardConfig
from tests.bench._measure import SMALL, rounds, seconds, show
from tests.training.judge_server import JudgeServer
from training.data.refine import grpo_row
from training.judge.judge import HttpJudge
from training.judge.prompts import Fences, HttpSettings, citation_questions, messages, names_of, rubric_questions
from training.refiner_rewards import RefinerReward

ROLLOUTS, LATENCY_SECONDS, CONCURRENCY = 8 if SMALL else 256, 0.05, 64
REQUESTS_EACH = 2
IDEAL_SECONDS = -(-ROLLOUTS * REQUESTS_EACH // CONCURRENCY) * LATENCY_SECONDS
ROUNDS = rounds(5)
ANSWERS = 100 if SMALL else 20_000


def main() -> None:
    """Print the time of 256 rewards beside the ideal and a bare client's, then how fast answers are scored."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    process.start()
    try:
        found = asyncio.run(steps(str(here.recv())))
    finally:
        here.send("stop")
        process.join()
    title = f"{ROLLOUTS} rollouts, judge of {LATENCY_SECONDS * 1000:.0f} ms, concurrency {CONCURRENCY}"
    table = Table("what", "seconds", "of the ideal", "of the bare client", title=title)
    table.add_row("the pauses alone (ideal)", f"{IDEAL_SECONDS:.2f}", "1.00", "")
    bare = statistics.median(next(iter(found.values())))
    for name, values in found.items():
        middle = statistics.median(values)
        table.add_row(name, f"{middle:.2f}", f"{middle / IDEAL_SECONDS:.2f}", f"{middle / bare:.2f}")
    show(table)
    table = Table("what", "answers a second", "of the 5,000 wanted", title="scoring without a judge, one core")
    rate = scoring()
    table.add_row("read, check, settle", f"{rate:,.0f}", f"{rate / 5000:.1f}")
    show(table)


def serve(pipe: Connection) -> None:
    """Answer requests after a pause until told to stop."""
    with JudgeServer(lambda _: LATENCY_SECONDS) as server:
        pipe.send(server.url)
        pipe.recv()


async def steps(url: str) -> dict[str, list[float]]:
    """Return times of several steps by what was timed, after one that opens the connections."""
    reward = RefinerReward(RewardConfig(), HttpJudge(HttpSettings(url, concurrency=CONCURRENCY)))
    timed = ("a bare client, by the clock", "rewards, by the clock", "our own work for them, process time")
    found: dict[str, list[float]] = {name: [] for name in timed}
    records = [each for each in refiner_bank().train if "<snippet" in (each.reference or "")]
    for step in range(ROUNDS + 1):
        # the records of a step, eight times each, and as many unlike answers
        chosen = [records[(step * 32 + at // 8) % len(records)] for at in range(ROLLOUTS)]
        texts = [str(x.reference).replace("</answer>", f" Told {at} times.</answer>") for at, x in enumerate(chosen)]
        rows = [grpo_row(each)["record"] for each in chosen]
        bare = await bare_seconds(url, requests(chosen, texts))
        wall, cpu = time.perf_counter(), time.process_time()
        rewards = await reward(completions=texts, record=rows, log_metric=lambda name, value: None)
        spent = bare, time.perf_counter() - wall, time.process_time() - cpu
        assert None not in rewards
        for values, each in zip(found.values(), spent, strict=True):
            values.append(each)
    await reward.close()
    return {name: values[1:] for name, values in found.items()}


def requests(chosen: Sequence[RefinerRecord], texts: Sequence[str]) -> list[bytes]:
    """Return what is asked about the answers, as it goes over the line."""
    fences, found = Fences(), []
    for record, text in zip(chosen, texts, strict=True):
        inquiry = prepare(record, text, RewardConfig()).inquiry()
        for asked in (rubric_questions(inquiry), citation_questions(inquiry)):
            turns = messages(inquiry, names_of(inquiry, asked), fences)
            body = json.dumps({"model": "tiny-judge", "messages": turns}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            found.append(head.encode() + body)
    return found


async def bare_seconds(url: str, left: list[bytes]) -> float:
    """Return how long the server takes for requests that a client sends without any work of its own."""
    address = urlsplit(url)
    lines = [await asyncio.open_connection(address.hostname, address.port) for _ in range(CONCURRENCY)]

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while left:
            writer.write(left.pop())
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.rpartition(b":")[2]))

    started = time.perf_counter()
    await asyncio.gather(*(work(*line) for line in lines))
    taken = time.perf_counter() - started
    for _, writer in lines:
        writer.close()
    return taken


def scoring() -> float:
    """Return how many answers are scored in a second of process time, verdicts at hand."""
    config, records = RewardConfig(), refiner_bank().train[:ANSWERS]
    known = {each.id: compare_words(prepare(each, str(each.reference), config).inquiry()) for each in records}

    def work() -> None:
        for at in range(ANSWERS):
            each = records[at % len(records)]
            settle(prepare(each, str(each.reference), config), known[each.id])

    return ANSWERS / statistics.median(seconds(work) for _ in range(ROUNDS))
