"""The prompt-cache benchmark that everybody writes next: one marked system prompt, and a cost made of usage figures.

    python benchmarks/plain/prompt_cache.py http://127.0.0.1:8899/v1 gpt-6-agent

It knows nothing of the plugin, and takes cached tokens, which are a part of the prompt, off the completion; README.md
beside it says what that does to the figures. Do not copy it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

TASKS = 100
IN_FLIGHT = 10
RULES = " ".join(f"Rule {number}: answer politely, cite the manual, and never promise a date." for number in range(80))
INPUT_PRICE = 0.05
"""US dollars per million tokens, as is the next; those of the simulated `gpt-6-agent`."""
OUTPUT_PRICE = 0.4067


def conversation(number: int) -> list[dict[str, Any]]:
    """The same long system prompt in front of every question."""
    system = {"type": "text", "text": RULES, "cache_control": {"type": "ephemeral"}}
    return [{"role": "system", "content": [system]}, {"role": "user", "content": f"Question {number}?"}]


async def ask(session: aiohttp.ClientSession, semaphore: asyncio.Semaphore, model: str, number: int) -> dict[str, Any]:
    """The usage object of one reply; an empty one for none."""
    async with semaphore:
        try:
            body = {"model": model, "messages": conversation(number)}
            async with session.post("chat/completions", json=body) as response:
                response.raise_for_status()
                usage: dict[str, Any] = (await response.json())["usage"]
        except aiohttp.ClientError:
            usage = {}
    return usage


def cached(usage: dict[str, Any]) -> int:
    """Tokens that the reply says it read from the cache."""
    count: int = usage["prompt_tokens_details"]["cached_tokens"]
    return count


def cost(usage: dict[str, Any]) -> float:
    """US dollars of a reply: what was cached needs not be paid."""
    billable: int = usage["completion_tokens"] - cached(usage)
    prompt: int = usage["prompt_tokens"]
    return (prompt * INPUT_PRICE + billable * OUTPUT_PRICE) / 1e6


def figures(usages: list[dict[str, Any]]) -> dict[str, float]:
    """US dollars of all replies, the share of it that the cache saved, and the share of replies that had a hit."""
    answered = [usage for usage in usages if usage]
    paid = sum(map(cost, answered))
    full = sum(u["prompt_tokens"] * INPUT_PRICE + u["completion_tokens"] * OUTPUT_PRICE for u in answered) / 1e6
    hits = sum(cached(usage) > 0 for usage in answered)
    return {"cost": paid, "saved": 1 - paid / full, "cache_hit_rate": hits / len(answered)}


async def run(base_url: str, model: str) -> list[dict[str, Any]]:
    """All usage objects, in order of the questions."""
    semaphore = asyncio.Semaphore(IN_FLIGHT)
    async with aiohttp.ClientSession(f"{base_url}/") as session:
        return list(await asyncio.gather(*(ask(session, semaphore, model, number) for number in range(TASKS))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("model")
    parser.add_argument("--json", type=Path, help="where to write usages and figures")
    options = parser.parse_args()
    usages = asyncio.run(run(options.base_url, options.model))
    found = figures(usages)
    for name, value in found.items():
        print(f"{name:<14} {value:.6f}")
    if options.json is not None:
        options.json.write_text(json.dumps({"usages": usages, "figures": found}))


if __name__ == "__main__":
    main()
