"""The latency benchmark that everybody writes first: a semaphore, a hundred tasks, a timer around each request.

    python benchmarks/plain/latency.py http://127.0.0.1:8899/v1 gpt-6-agent

It knows nothing of the plugin, and has the habits that such scripts have; README.md beside it says what they do to the
figures. Do not copy it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp

TASKS = 100
IN_FLIGHT = 50


async def ask(session: aiohttp.ClientSession, semaphore: asyncio.Semaphore, model: str, number: int) -> dict[str, Any]:
    """One task: its start and its latency in seconds, and whether it was answered."""
    messages = [{"role": "user", "content": f"Summarise report {number}."}]
    start = time.time()
    async with semaphore:
        try:
            async with session.post("chat/completions", json={"model": model, "messages": messages}) as response:
                response.raise_for_status()
                await response.json()
            ok = True
        except aiohttp.ClientError:
            ok = False
    return {"start": start, "latency": time.time() - start, "ok": ok}


def percentile(latencies: list[float], share: float) -> float:
    """The item at `share` of the sorted list."""
    return sorted(latencies)[int(len(latencies) * share)]


def figures(results: list[dict[str, Any]], elapsed: float) -> dict[str, float]:
    """Seconds, tasks per second, and a share."""
    latencies = [result["latency"] for result in results if result["ok"]]
    return {
        "latency.p50": percentile(latencies, 0.50),
        "latency.p95": percentile(latencies, 0.95),
        "latency.p99": percentile(latencies, 0.99),
        "throughput": len(results) / elapsed,
        "success_rate": len(latencies) / len(results),
    }


async def run(base_url: str, model: str) -> tuple[list[dict[str, Any]], float]:
    """All tasks at once, and the seconds they took."""
    semaphore = asyncio.Semaphore(IN_FLIGHT)
    async with aiohttp.ClientSession(f"{base_url}/") as session:
        began = time.time()
        results = await asyncio.gather(*(ask(session, semaphore, model, number) for number in range(TASKS)))
        return list(results), time.time() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("model")
    parser.add_argument("--json", type=Path, help="where to write results and figures")
    options = parser.parse_args()
    results, elapsed = asyncio.run(run(options.base_url, options.model))
    found = figures(results, elapsed)
    for name, value in found.items():
        print(f"{name:<14} {value:.4f}")
    if options.json is not None:
        options.json.write_text(json.dumps({"results": results, "elapsed": elapsed, "figures": found}))


if __name__ == "__main__":
    main()
