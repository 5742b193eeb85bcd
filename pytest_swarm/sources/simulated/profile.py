"""What a simulated gateway is like: plain data. `profiles/gpt-6-agent.toml` beside this module explains every field."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_swarm.sources.simulated.toml_table import checked, choice, flag, list_of, number, share, whole

__all__ = [
    "Cache",
    "Capacity",
    "Faults",
    "Json",
    "Limits",
    "Prices",
    "Service",
    "Stream",
    "System",
    "Tokens",
]


@dataclass(frozen=True, slots=True)
class Service:
    """How long a worker works on a request of the mean length."""

    shares: tuple[float, ...] = checked(list_of(share))
    seconds: tuple[float, ...] = checked(list_of(number(above=True)))
    first_token_share: float = checked(share, 0.2)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Who works: `workers` of a fixed pool, or from `min_workers` to `max_workers` of an elastic one."""

    policy: str = checked(choice("fixed", "elastic"))
    workers: int = checked(whole(1), 0)
    min_workers: int = checked(whole(1), 0)
    max_workers: int = checked(whole(1), 0)
    spawn_seconds: float = checked(number(), 0.0)
    idle_seconds: float = checked(number(above=True), 30.0)


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong: transient faults, from which the system recovers, and how a request fails for its client."""

    transient_rate: float = checked(share, 0.0)
    transient_share: float = checked(share, 0.0)
    recovery: str = checked(choice("backoff", "reschedule"), "backoff")
    max_retries: int = checked(whole(), 3)
    backoff_seconds: float = checked(number(), 0.25)
    doomed_rate: float = checked(share, 0.0)
    doomed_seconds: float = checked(number(), 0.05)
    doomed_status: int = checked(choice(400, 403, 408, 409, 422, 429, 500, 502, 503, 504, 529), 503)
    hang_rate: float = checked(share, 0.0)
    hang_seconds: float = checked(number(above=True), 600.0)
    stall_rate: float = checked(share, 0.0)
    stall_seconds: float = checked(number(above=True), 60.0)
    cut_rate: float = checked(share, 0.0)
    stream_error_rate: float = checked(share, 0.0)


@dataclass(frozen=True, slots=True)
class Tokens:
    """How long replies are."""

    output_mean: int = checked(whole(1))
    output_spread: float = checked(share, 0.05)
    visible_mean: int = checked(whole(1), 120)


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens."""

    input: float = checked(number(), 0.0)
    cached_input: float = checked(number(), 0.0)
    cache_write: float | None = checked(number(), None)
    """None: written at the price of any input."""
    output: float = checked(number(), 0.0)


@dataclass(frozen=True, slots=True)
class Cache:
    """The prompt cache, counted in tokens of a common beginning."""

    scope: str = checked(choice("shared", "worker", "none"), "none")
    min_tokens: int = checked(whole(1), 1024)
    block_tokens: int = checked(whole(1), 128)
    ttl_seconds: float = checked(number(above=True), 300.0)
    keeps_replies: bool = checked(flag, False)


@dataclass(frozen=True, slots=True)
class Json:
    """How often a reply that should be JSON is none, in which ways, and how often it is JSON that does not fit."""

    invalid_rate: float = checked(share, 0.0)
    invalid_kinds: tuple[str, ...] = checked(list_of(choice("cut", "fenced", "prose")), ("cut", "fenced", "prose"))
    schema_invalid_rate: float = checked(share, 0.0)


@dataclass(frozen=True, slots=True)
class Stream:
    """How a reply comes in pieces."""

    max_chunks: int = checked(whole(1), 16)
    gap_jitter: float = checked(share, 0.3)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may send; None is no limit."""

    requests_per_minute: int | None = checked(whole(1), None)
    tokens_per_minute: int | None = checked(whole(1), None)


@dataclass(frozen=True, slots=True)
class System:
    """One simulated gateway."""

    name: str
    description: str
    service: Service
    capacity: Capacity
    faults: Faults
    tokens: Tokens
    prices: Prices
    cache: Cache
    json: Json
    stream: Stream
    limits: Limits
