"""Helpers of the tests. Each runs one event loop per test, with a limit for its time."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

LIMIT = 120
"""Seconds after which a test has failed; on an idle machine none takes three."""


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> None:
    """Runs coroutine functions as tests."""
    if name.startswith("test_") and inspect.iscoroutinefunction(obj):
        setattr(collector.obj, name, run_in_loop(obj))


def run_in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Returns a test that runs the coroutine function in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), LIMIT))

    return run
