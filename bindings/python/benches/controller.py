"""Compares the duration of a rule in Python with the same rule in Rust, and one thread with two.

    python bindings/python/benches/controller.py

Both rules give the same values, or the exit status is 1. For figures, leave the machine alone, and
build in release mode.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

import conche
import polars

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "bindings/python/examples"))

from controller import LastRtt  # noqa: E402

ROUNDS = 5


def main() -> int:
    experiment = conche.Experiment(ROOT / "scenarios/examples/codel.toml")
    in_rust, in_python = experiment.controllers("basic"), experiment.controllers(LastRtt)
    ways = {"Rust": (in_rust, 1), "Python": (in_python, 1), "Python, two threads": (in_python, 2)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    measured: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for way, (of, jobs) in ways.items():
            began = time.monotonic()
            results = of.run(jobs=jobs)
            seconds[way].append(time.monotonic() - began)
            measured[way] = polars.DataFrame(results.values)["measured"].to_list()
    for way, durations in seconds.items():
        ratio = median(duration / rust for duration, rust in zip(durations, seconds["Rust"], strict=True))
        print(f"{way:20} {median(durations):6.2f} s  {ratio:.2f} x")
    return 0 if all(values == measured["Rust"] for values in measured.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
