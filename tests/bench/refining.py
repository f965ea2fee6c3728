"""The refiner's reward: how close 256 rollouts come to the time their judge needs, and how fast scoring is alone.

A judge's server in a process of its own answers each request after 50 ms; 64 requests are under way at a
time, two for each rollout. The ideal is what the pauses alone would take: requests / 64 rounds of 50 ms.
Scoring reads, checks and settles answers with their verdicts at hand, on one core.

    python -m tests.bench.refining
"""

import asyncio
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection

from rich.console import Console
from rich.table import Table

from evals.refiner.bank import refiner_bank
from evals.refiner.heuristic import compare_words
from evals.refiner.score import prepare, settle
from evals.schema.refining import RewardConfig
from tests.training.judge_server import JudgeServer
from training.judging.http import HttpJudge
from training.judging.settings import HttpSettings
from training.refining.data import grpo_row
from training.refining.reward import Judging, RefinerReward

ROLLOUTS, LATENCY_SECONDS, CONCURRENCY = 256, 0.05, 64
REQUESTS_EACH = 2
IDEAL_SECONDS = -(-ROLLOUTS * REQUESTS_EACH // CONCURRENCY) * LATENCY_SECONDS
ROUNDS = 5
ANSWERS = 20_000


def main() -> None:
    """Print both tables."""
    Console().print(rewarding())
    Console().print(scoring())


def rewarding() -> Table:
    """Return the time of 256 rewards beside the ideal, median of several steps."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    process.start()
    try:
        walls, cpus = asyncio.run(steps(str(here.recv())))
    finally:
        here.send("stop")
        process.join()
    table = Table(
        title=f"{ROLLOUTS} rollouts, judge of {LATENCY_SECONDS * 1000:.0f} ms, concurrency {CONCURRENCY}"
    )
    for column in ("what", "seconds", "of the ideal"):
        table.add_column(column)
    table.add_row("the pauses alone (ideal)", f"{IDEAL_SECONDS:.2f}", "1.00")
    for name, values in (("rewards, by the clock", walls), ("our own work, process time", cpus)):
        middle = statistics.median(values)
        table.add_row(name, f"{middle:.2f}", f"{middle / IDEAL_SECONDS:.2f}")
    return table


async def steps(url: str) -> tuple[list[float], list[float]]:
    """Return clock and process time of several steps, after one that opens the connections."""
    judge = HttpJudge(HttpSettings(url, concurrency=CONCURRENCY))
    reward = RefinerReward(RewardConfig(), Judging(judge))
    records = [each for each in refiner_bank().train if "<snippet" in (each.reference or "")]
    walls, cpus = [], []
    for step in range(ROUNDS + 1):
        chosen = [records[(step * 32 + at // 8) % len(records)] for at in range(ROLLOUTS)]
        texts = [
            str(each.reference).replace("</answer>", f" Told {at} times.</answer>")
            for at, each in enumerate(chosen)
        ]
        rows = [grpo_row(each)["record"] for each in chosen]
        wall, cpu = time.perf_counter(), time.process_time()
        rewards = await reward(completions=texts, record=rows)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        assert None not in rewards
    await reward.close()
    return walls[1:], cpus[1:]


def serve(pipe: Connection) -> None:
    """Answer requests after a pause until told to stop."""
    with JudgeServer(lambda _: LATENCY_SECONDS) as server:
        pipe.send(server.url)
        pipe.recv()


def scoring() -> Table:
    """Return how many answers are scored in a second of process time, verdicts at hand."""
    config = RewardConfig()
    records = refiner_bank().train
    known = {}
    for each in records:
        case = prepare(each, str(each.reference), config)
        known[each.id] = compare_words(case.inquiry())
    rates = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for at in range(ANSWERS):
            each = records[at % len(records)]
            settle(prepare(each, str(each.reference), config), known[each.id])
        rates.append(ANSWERS / (time.process_time() - started))
    table = Table(title="scoring without a judge, one core")
    for column in ("what", "answers a second", "of the 5,000 wanted"):
        table.add_column(column)
    middle = statistics.median(rates)
    table.add_row("read, check, settle", f"{middle:,.0f}", f"{middle / 5000:.1f}")
    return table


if __name__ == "__main__":
    main()
