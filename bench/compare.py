"""Side by side: mashbox and `transformers serve` on the same weights, in turn, several pairs.

    python -m bench.compare --pairs 3

Prints medians of each server and of the ratios pair by pair. Run it on a quiet machine; with
--threads 1 when it is not.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from bench.load import prompt, run_chats
from bench.peers import Peer, mashbox, started, transformers_serve

FIGURES = ("tok/s", "TTFT p50 s", "CPU s", "peak GB")


def measure(peer: Peer, arguments: argparse.Namespace, seed: int, log: Path) -> tuple[float, ...]:
    """Run the load once against a fresh server; gives FIGURES."""
    texts = [prompt(arguments.prompt, seed * 1000 + n) for n in range(arguments.chats)]
    with started(peer, arguments.threads, log) as running:
        warm = [prompt(arguments.prompt, n) for n in range(2)]
        asyncio.run(run_chats(peer.url, peer.model, warm, 4, 2))
        before = running.cpu_seconds()
        load = asyncio.run(
            run_chats(peer.url, peer.model, texts, arguments.tokens, arguments.concurrency)
        )
        cpu = running.cpu_seconds() - before
    return load.tokens_per_second, load.first_median, cpu, running.peak_bytes / 1e9


def weights() -> Path:
    """The default model's weights as a safetensors folder, converted if need be."""
    from engine.catalog import resolve
    from engine.loader import converted
    from engine.model_files import read_header

    source = resolve(None)
    return converted(source.path, read_header(source.path), "float32", lambda d, t: None)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--chats", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=200, help="tokens of each prompt, about")
    parser.add_argument("--tokens", type=int, default=64, help="most new tokens of each answer")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    folder = weights()
    peers = [
        mashbox(folder, 8411, min(arguments.concurrency, 16)),
        transformers_serve(folder, 8412),
    ]
    log = Path(tempfile.gettempdir()) / "mashbox-bench.log"
    results: dict[str, list[tuple[float, ...]]] = {peer.name: [] for peer in peers}
    for pair in range(arguments.pairs):
        for peer in peers:
            figures = measure(peer, arguments, pair + 1, log)
            results[peer.name].append(figures)
            print(
                f"{peer.name:20}",
                *(f"{n} {v:9.2f}  " for n, v in zip(FIGURES, figures, strict=True)),
            )
    report(results)


def report(results: dict[str, list[tuple[float, ...]]]) -> None:
    """Print each server's medians and the median of the pairs' ratios, first over second."""
    print(f"\n{'median':20}", *(f"{name:>12}" for name in FIGURES))
    for name, rows in results.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"{name:20}", *(f"{value:12.2f}" for value in medians))
    ours, theirs = results.values()
    pairs = [[a / b for a, b in zip(*pair, strict=True)] for pair in zip(ours, theirs, strict=True)]
    ratios = [statistics.median(column) for column in zip(*pairs, strict=True)]
    print(f"{'ratio':20}", *(f"{value:12.2f}" for value in ratios))


if __name__ == "__main__":
    main()
