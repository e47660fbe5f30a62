"""Side by side: mashbox and its peers on the same weights, in turn, several pairs.

    python -m bench.compare --scenario chats-8 --peer mashbox --peer llama-q8 --pairs 5

Starts a fresh server for every run and prints, as Markdown, the medians of each server and of the
ratios pair by pair. Without --scenario and --peer it runs all. Use --threads 1 on a machine that is
not quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx

from bench.figures import Figures, report
from bench.load import Client, prompt
from bench.peers import Peer, free_port, started
from bench.scenarios import SCENARIOS, Run, Scenario
from bench.servers import OURS, SERVERS, Room
from bench.weights import Weights, weights

LOG = Path(tempfile.gettempdir()) / "mashbox-bench.log"


async def _load(peer: Peer, run: Run, seed: int) -> Figures:
    client = Client(peer.url, peer.model)
    try:
        return await run(client, seed)
    finally:
        await client.close()


async def _warm(client: Client, seed: int) -> Figures:
    await client.chats([prompt(200, seed - n) for n in range(2)], 4, 2)
    return {}


def measure(peer: Peer, scenario: Scenario, seed: int) -> Figures:
    """Run the scenario once against a fresh server."""
    with started(peer, LOG) as running:
        asyncio.run(_load(peer, _warm, -1))
        before = running.cpu_seconds()
        figures = asyncio.run(_load(peer, scenario.run, seed))
        figures["CPU s"] = running.cpu_seconds() - before
        figures["peak GB"] = running.peak_bytes / 1e9
        figures["start s"] = running.start_seconds
        _check_compiles(peer)
    return figures


def _check_compiles(peer: Peer) -> None:
    if compiles := httpx.get(peer.url + "/health").json().get("compiles_after_ready"):
        print(f"{peer.name} compiled {compiles} programs after it was ready", file=sys.stderr)


def compare(
    scenario: Scenario, names: Sequence[str], files: Weights, threads: int, pairs: int
) -> str:
    """Run all servers in turn, every other time in reverse; gives the report."""
    room = Room(scenario.ctx, scenario.slots, threads)
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for pair in range(1, pairs + 1):
        for name in names if pair % 2 else reversed(names):
            figures = measure(SERVERS[name](files, free_port(), room), scenario, pair)
            runs[name].append(figures)
            shown = "  ".join(f"{key} {value:.4g}" for key, value in figures.items())
            print(f"{scenario.name} {pair} {name}: {shown}", file=sys.stderr)
    return report(scenario.name, runs, OURS)


def machine() -> str:
    """The processor and how busy it is, in words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.name == "posix" else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    name = models[0] if models else platform.processor()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{name}, {os.cpu_count()} processors, load average {load}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    parser.add_argument("--peer", action="append", choices=SERVERS)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    files = weights()
    for name in arguments.scenario or SCENARIOS:
        print(f"{machine()}, {arguments.threads} threads, {arguments.pairs} pairs\n")
        peers = arguments.peer or list(SERVERS)
        print(compare(SCENARIOS[name], peers, files, arguments.threads, arguments.pairs), "\n")


if __name__ == "__main__":
    main()
