"""A stream that is read as fast as it comes, whatever its reader does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from pytest_swarm.tap.readahead import WAITING_BYTES, ReadAhead


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_pieces_come_in_order_and_an_error_after_them() -> None:
    async def source() -> AsyncGenerator[bytes]:
        yield b"a"
        yield b"b"
        raise OSError("cut")

    async def main() -> None:
        ahead = ReadAhead.start(source())
        assert ahead is not None
        await settle()
        got: list[bytes] = []
        with pytest.raises(OSError, match="cut"):
            async for piece in ahead.pieces():
                got.append(piece)
        assert got == [b"a", b"b"]

    asyncio.run(main())


def test_a_reader_that_does_not_come_stops_the_reading_when_enough_waits() -> None:
    taken: list[int] = []

    async def source() -> AsyncGenerator[bytes]:
        for number in range(6):
            taken.append(number)
            yield bytes(WAITING_BYTES // 2)

    async def main() -> None:
        ahead = ReadAhead(source())
        await settle()
        assert taken == [0, 1, 2]
        assert len([piece async for piece in ahead.pieces()]) == 6

    asyncio.run(main())


def test_stopping_closes_the_source() -> None:
    closed: list[bool] = []

    async def source() -> AsyncGenerator[bytes]:
        try:
            yield b"a"
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def main() -> None:
        ahead = ReadAhead(source())
        await settle()
        await ahead.stop()
        await ahead.stop()

    asyncio.run(main())
    assert closed == [True]


def test_nothing_is_read_ahead_where_no_loop_runs() -> None:
    async def source() -> AsyncGenerator[bytes]:
        yield b"a"

    assert ReadAhead.start(source()) is None
