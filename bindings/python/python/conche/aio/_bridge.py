"""Delivers results of the extension module's thread to an event loop.

That thread leaves results in a queue and writes a byte to a socket, once for all results that the
loop has not taken yet. The loop reads the socket, takes all results and completes their futures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

from conche._conche import Call, Client, Failure, Queue

from ._errors import error_of


class Bridge:
    """The queue of one event loop, with the futures that wait for results."""

    def __init__(self) -> None:
        self.queue = Queue()
        self._futures: dict[int, asyncio.Future[object]] = {}
        self._servers: dict[int, Callable[[Call], None]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def result(self, key: int) -> object:
        """Waits for the result of a task. Cancels the task if the waiting is cancelled."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._futures[key] = future
        try:
            return await future
        finally:
            if self._futures.pop(key, None) is not None:
                Client.cancel(key)

    def add_server(self, key: int, call: Callable[[Call], None]) -> None:
        """Passes the requests of a server to a function."""
        self._servers[key] = call

    def remove_server(self, key: int) -> None:
        """Forgets a server."""
        self._servers.pop(key, None)

    def handling(self, key: int, task: asyncio.Task[None]) -> None:
        """Cancels the task of a handler when nobody waits for its response any more."""
        if not task.done():
            self._tasks[key] = task

    def handled(self, key: int) -> None:
        """Forgets a handler's task."""
        self._tasks.pop(key, None)

    def drain(self) -> None:
        """Takes all results."""
        futures = self._futures
        for key, value in self.queue.take():
            future = futures.pop(key, None)
            if future is not None:
                if future.done():
                    continue
                if isinstance(value, Failure):
                    future.set_exception(error_of(value))
                else:
                    future.set_result(value)
            elif isinstance(value, Call):
                call = self._servers.get(key)
                if call is not None:
                    call(value)
            elif value is False:
                task = self._tasks.pop(key, None)
                if task is not None:
                    task.cancel()


class _Loop(Protocol):
    """An event loop."""


_bridges: WeakKeyDictionary[_Loop, Bridge] = WeakKeyDictionary()


def bridge() -> Bridge:
    """Returns the bridge of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _bridges.get(loop)
    if found is None:
        found = _bridges[loop] = Bridge()
        loop.add_reader(found.queue.fileno(), found.drain)
    return found
