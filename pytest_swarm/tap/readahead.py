"""Reading a stream as fast as it comes, whatever its reader does meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Self

__all__ = ["ReadAhead"]

WAITING_BYTES: Final = 2**20
"""Bytes that may wait for the reader; beyond, the peer is told to slow down. A burst is not a slow reader."""


class ReadAhead:
    """Takes the pieces of a stream in a task of its own, and keeps them for a reader."""

    def __init__(self, source: AsyncGenerator[bytes]) -> None:
        self._source = source
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._error: BaseException | None = None
        self._done = False
        self._task = asyncio.create_task(self._read())

    @classmethod
    def start(cls, source: AsyncGenerator[bytes]) -> Self | None:
        """Begin to read; None where no loop of asyncio runs, which has to read by itself."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return None
        return cls(source)

    async def _read(self) -> None:
        try:
            async with aclosing(self._source):
                async for piece in self._source:
                    self._waiting.append(piece)
                    self._size += len(piece)
                    self._changed.set()
                    while self._size > WAITING_BYTES:
                        self._changed.clear()
                        await self._changed.wait()
        except BaseException as error:  # noqa: BLE001 - it is the reader's, and is raised there
            self._error = error
        finally:
            self._done = True
            self._changed.set()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """What was read, in order; then the error that ended the stream, if one did."""
        while True:
            while self._waiting:
                piece = self._waiting.popleft()
                self._size -= len(piece)
                self._changed.set()
                yield piece
            if self._done:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    async def stop(self) -> None:
        """Read no further."""
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
