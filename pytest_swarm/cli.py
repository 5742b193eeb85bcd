"""The command ``pytest-swarm``: ``pytest-swarm gateway`` serves simulated gateways over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from pytest_swarm.errors import SettingError
from pytest_swarm.sources.simulated.systems import System, builtin_systems, load_systems
from pytest_swarm.values import plain, shown

__all__ = ["main"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`, those of the process by default. Returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        systems = builtin_systems() if options.systems is None else load_systems(options.systems)
        key = _key(options.key_env, os.environ)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(options, systems, key))
    except SettingError as error:
        _tell(f"pytest-swarm: {error}")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-swarm", description="Tools beside the pytest plugin pytest-llm-swarm."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    gateway = commands.add_parser(
        "gateway",
        help="serve simulated gateways over HTTP",
        description="Serve simulated gateways over HTTP, in the wire formats of OpenAI and Anthropic. "
        "GET /ledger tells what was really sent.",
    )
    gateway.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    gateway.add_argument("--port", type=_port, default=8899, help="port, 0 for any free one (default: %(default)s)")
    gateway.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="run N times as fast (default: 1)")
    gateway.add_argument("--seed", type=int, default=1, help="seed of everything that is drawn (default: %(default)s)")
    gateway.add_argument("--systems", type=Path, metavar="FILE", help="profiles of further systems, TOML")
    gateway.add_argument("--key-env", metavar="NAME", help="environment variable with the key that requests must bring")
    return parser


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a port; write a whole number from 0 to 65535")
    return number


def _speed(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a speed; write a number above 0 such as 10")
    return number


def _key(variable: str | None, environ: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    key = environ.get(variable, "").strip()
    if not key:
        raise SettingError(f"--key-env: the environment variable {shown(variable)} is not set; set it to the key")
    return key


async def _serve(options: argparse.Namespace, systems: Mapping[str, System], key: str | None) -> None:
    from pytest_swarm.sources.simulated.http_front import HttpFront

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with HttpFront(systems, seed=f"{options.seed}:gateway", speed=options.speed, key=key) as front:
        try:
            url = await front.listen(options.host, options.port)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SettingError(
                f"cannot listen at {options.host} port {options.port} ({reason}); choose others with --host and --port"
            ) from None
        if options.host not in LOOPBACK and key is None:
            _tell(
                f"pytest-swarm: everybody who reaches {options.host} can use this gateway; ask for a key with --key-env"
            )
        ready = f"simulated gateway at {url} (speed {plain(options.speed)}, seed {options.seed}): {', '.join(systems)}"
        _tell(ready, sys.stdout)
        await ended.wait()


def _tell(line: str, stream: TextIO | None = None) -> None:
    stream = stream or sys.stderr
    stream.write(f"{line}\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
