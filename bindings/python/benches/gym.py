"""Counts the steps per second of one environment, and of several as a vector.

    python bindings/python/benches/gym.py

The agent repeats one action. Each figure is the best of several rounds: other work on the machine only
slows them. For figures, build in release mode.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import conche
import numpy as np
from conche.gym import Environment, VectorEnvironment

SECONDS = 1.0
ROUNDS = 10


def rate(step: Callable[[], None], number: int) -> float:
    began, steps = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < SECONDS:
        step()
        steps += number
    return steps / elapsed


def of_one(experiment: conche.Experiment) -> float:
    environment = Environment(experiment)
    environment.reset(seed=1)

    def step() -> None:
        _, _, terminated, truncated, _ = environment.step(2)
        if terminated or truncated:
            environment.reset()

    found = rate(step, 1)
    environment.close()
    return found


def of_vector(experiment: conche.Experiment, number: int) -> float:
    environments = VectorEnvironment([Environment(experiment) for _ in range(number)])
    environments.reset(seed=1)
    actions = np.full(number, 2)
    found = rate(lambda: [environments.step(actions)] and None, number)
    environments.close()
    return found


def main() -> int:
    for name in ("star", "short-queue", "gprs"):
        experiment = conche.Experiment(name)
        one = [of_one(experiment) for _ in range(ROUNDS)]
        print(f"{name:12} one {max(one):9.0f} steps/s", end="", flush=True)
        for number in (8, 64):
            many = [of_vector(experiment, number) for _ in range(ROUNDS)]
            print(f"   vector of {number} {max(many):9.0f}", end="", flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
