"""Progress of a campaign, on standard error or for a function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

LINE_S = 10.0
"""Time between two lines."""
BAR_S = 0.2
WIDTH = 30


class Progress:
    """A bar on a terminal, otherwise lines."""

    def __init__(self, wanted: bool | Callable[[int, int], object] | None, runs: int, work: int) -> None:
        self.function = wanted if callable(wanted) else None
        self.is_shown = wanted is True
        self.is_bar = sys.stderr.isatty()
        self.runs, self.work = runs, work
        self.done = 0
        self.events = 0
        self.new = 0
        self.began = time.monotonic()
        self.shown = self.began
        self.work_at_begin = work

    def begin(self, kept: int, work_left: int) -> None:
        """States the runs of an earlier driver."""
        self.done, self.work_at_begin = kept, work_left
        self.began = self.shown = time.monotonic()
        if kept and self.is_shown and not self.is_bar:
            print(f"{kept} of {self.runs} runs are stored", file=sys.stderr)

    def add(self, runs: int, events: int) -> None:
        self.done += runs
        self.events += events

    def show(self, work_left: int, workers: int) -> None:
        if self.function is not None:
            self.function(self.work - work_left, self.work)
        now = time.monotonic()
        if not self.is_shown or (work_left and now - self.shown < (BAR_S if self.is_bar else LINE_S)):
            return
        self.shown = now
        elapsed = now - self.began
        worked = self.work_at_begin - work_left
        left = f"{_time(elapsed * work_left / worked)} left" if worked else "time left unknown"
        rate = _number(self.events / elapsed) if elapsed else "0"
        text = f"{self.done} of {self.runs} runs, {rate} events/s, {workers} workers, {left}"
        if self.is_bar:
            part = 1 - work_left / self.work if self.work else 1
            full = "#" * int(part * WIDTH)
            print(f"\r\x1b[K{full:-<{WIDTH}} {part:4.0%}  {text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.is_shown and self.is_bar:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _number(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f}"
