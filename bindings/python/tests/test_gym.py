"""Environments for agents that choose timeouts."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conche
import gymnasium
import numpy as np
import polars
import pytest
from conche.controller import Controller, Peer
from conche.gym import FEATURES, Environment, Exchange, Policy, VectorEnvironment, reward
from conftest import LIMIT
from gymnasium.utils.env_checker import check_env
from test_lab import SCENARIO

YARD = conche.Experiment(SCENARIO).only(meters=4)
UNCHANGED = 2
"""Place of the factor 1."""


def episode(environment: Environment, actions: Any = UNCHANGED, **reset: Any) -> Iterator[tuple[Any, ...]]:
    """Yields observation, reward and info of each step; `actions` may be a function of the observation."""
    observation, info = environment.reset(**reset)
    yield observation, 0.0, info
    over = False
    while not over:
        action = actions(observation) if callable(actions) else actions
        observation, rewarded, terminated, truncated, info = environment.step(action)
        over = terminated or truncated
        yield observation, rewarded, info


def by_turns(observation: Any) -> int:
    """Depends on all features."""
    return int(float(np.sum(observation)) * 1e4) % 5


def exchanges(steps: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    ended: list[Exchange] = [exchange for _, _, info in steps for exchange in info["ended"]]
    rows = [
        (of.node, of.peer, round(of.began, 9), round(of.ended, 9), of.retransmissions + 1, of.spurious)
        for of in ended
        if of.outcome != "cancelled"
    ]
    return sorted(rows)


def exchanges_of_run(experiment: conche.Experiment, replication: int) -> list[tuple[Any, ...]]:
    frame = polars.DataFrame(experiment.run(exchanges=True).exchanges)
    frame = frame.filter(polars.col("replication") == replication)
    columns = ["client", "server", "start_s", "end_s", "transmissions", "unnecessary"]
    rows = frame.select(columns).rows()
    return sorted((*row[:2], round(row[2], 9), round(row[3], 9), *row[4:]) for row in rows)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factors", [(0.5, 1, 2), None])
def test_gymnasiums_checker_accepts_an_environment(factors: tuple[float, ...] | None) -> None:
    environment = Environment(YARD, factors=factors)
    check_env(environment, skip_render_check=True)
    environment.close()


def test_a_seed_decides_all_episodes() -> None:
    def of(environment: Environment, seed: int) -> list[Any]:
        first = [*episode(environment, by_turns, seed=seed)]
        second = [*episode(environment, by_turns)]
        seeds = [steps[0][2]["seed"] for steps in (first, second)]
        return [seeds, [(observation.tolist(), rewarded) for observation, rewarded, _ in first + second]]

    environment = Environment(YARD)
    found = of(environment, 1)
    assert found == of(environment, 1) == of(Environment(YARD), 1)
    assert found != of(environment, 2)
    assert len(set(found[0])) == 2


@pytest.mark.parametrize("replication", [0, 1])
def test_the_unchanged_rto_is_the_default(replication: int) -> None:
    steps = episode(Environment(YARD, cell="default/4"), options={"replication": replication})
    expected = exchanges_of_run(YARD.only(scheme="default"), replication)
    assert exchanges(steps) == expected != []


@pytest.mark.parametrize("base", ["rto", "estimate"])
def test_a_policy_does_in_an_experiment_what_the_agent_did(base: Any) -> None:
    policy = Policy(by_turns, "by-turns", base=base)
    environment = Environment(YARD, cell="default/4", base=base)
    steps = [*episode(environment, by_turns, options={"replication": 1})]
    expected = exchanges_of_run(YARD.controllers(policy), 1)
    assert exchanges(iter(steps)) == expected
    assert expected != exchanges_of_run(YARD.only(scheme="default"), 1)
    rtos = {float(observation[0]) for observation, _, _ in steps}
    assert len(rtos) > 5


def test_observations_are_finite_features_in_their_space() -> None:
    environment = Environment(YARD)
    for observation, _, info in episode(environment, by_turns, seed=3):
        assert environment.observation_space.contains(observation) and observation.shape == (len(FEATURES),)
        assert info["node"].startswith("meter[") and info["peer"] == "server"
    ended = [exchange for *_, info in episode(environment, seed=3) for exchange in info["ended"]]
    assert {exchange.outcome for exchange in ended} == {"acknowledged"}
    retransmitted = next(exchange for exchange in ended if exchange.retransmissions)
    assert retransmitted.rtt is not None and retransmitted.min_rtt is not None
    assert retransmitted.duration > retransmitted.rto > retransmitted.rtt >= retransmitted.min_rtt
    assert reward(retransmitted) < -1


def test_an_action_can_be_an_rto() -> None:
    environment = Environment(YARD, factors=None, rto=(0.5, 8))
    for action, rto in ((-1, 0.5), (0.5, 4), (1, 8)):
        actions = np.array([action], dtype=np.float32)
        observations = [observation for observation, *_ in episode(environment, actions, seed=1)]
        assert {float(observation[0]) for observation in observations} == {2, rto}


def test_an_agent_has_the_chosen_nodes_only() -> None:
    chosen = [info["node"] for *_, info in episode(Environment(YARD, nodes="meter[1]"), seed=1)]
    assert set(chosen) == {"meter[1]"}
    both = [info["node"] for *_, info in episode(Environment(YARD, nodes=["meter[0]", "meter[3]"]), seed=1)]
    assert set(both) == {"meter[0]", "meter[3]"}
    mixed = {info["cell"] for seed in range(20) for *_, info in [next(episode(Environment(YARD), seed=seed))]}
    assert mixed == {"default/4", "cocoa/4"}


def test_a_controller_in_python_can_have_the_other_nodes() -> None:
    class Slow(Controller):
        def peer(self, now: float) -> Peer:
            return Peer(rto=4.0)

        def base(self, peer: Peer, now: float) -> float:
            return peer.rto

    environment = Environment(YARD.controllers(Slow), nodes="meter[0]")
    assert [*episode(environment, seed=1)]
    environment.reset()
    del environment


def test_an_episode_ends_by_time_or_with_its_exchanges() -> None:
    environment = Environment(YARD)
    environment.reset(seed=1)
    ends: list[tuple[bool, bool]] = []
    while not any(ends[-1:] and ends[-1]):
        ends.append(environment.step(UNCHANGED)[2:4])
    assert ends[-1] == (False, True)
    text = SCENARIO.replace('duration = "5s"', 'time_limit = "1h"').replace(
        'to = "server"', 'to = "server"\nexchanges = 3'
    )
    few = Environment(text, cell="default/2")
    few.reset(seed=1)
    ends = [few.step(UNCHANGED)[2:4] for _ in range(6)]
    assert ends == [(False, False)] * 5 + [(True, False)]
    with pytest.raises(RuntimeError, match=r"no episode is in progress; call reset\(\)"):
        few.step(UNCHANGED)
    late = Environment(text.replace('"1h"', '"1ms"'), cell="default/2")
    late.reset(seed=1)
    for _ in range(2):
        *_, truncated, info = late.step(UNCHANGED)
    assert truncated and "has completed 0 of 3 exchanges" in info["problem"]


def squared(exchange: Exchange) -> float:
    return -(exchange.duration**2)


def test_an_environment_is_pickled_without_its_episode() -> None:
    environment = Environment(YARD, nodes="meter", factors=(0.5, 1), reward=squared)
    environment.reset(seed=1)
    again = pickle.loads(pickle.dumps(environment))
    with pytest.raises(RuntimeError, match="call reset"):
        again.step(0)
    rewards = [[rewarded for _, rewarded, _ in episode(of, 0, seed=2)] for of in (environment, again)]
    assert rewards[0] == rewards[1] and min(rewards[0]) < 0
    vector = pickle.loads(pickle.dumps(VectorEnvironment([environment, again])))
    assert vector.num_envs == 2


def test_errors_say_what_would_be_right() -> None:
    with pytest.raises(ValueError, match="no cell is called 'defautl/4'; did you mean 'default/4'"):
        Environment(YARD, cell="defautl/4")
    with pytest.raises(ValueError, match="no node is called \"client\"; groups are meter, server"):
        Environment(YARD, nodes="client")
    with pytest.raises(ValueError, match="no node is called"):
        Environment(YARD, nodes="meter[4]")
    with pytest.raises(ValueError, match="the nodes server decided on no exchange; choose other nodes"):
        Environment(YARD, nodes="server").reset()
    with pytest.raises(conche.ScenarioError, match="no path leads"):
        Environment(SCENARIO.replace('between = ["meter", "server"]', 'from = "meter"\nto = "server"')).reset()
    with pytest.raises(ValueError, match="factors=.*positive"):
        Environment(YARD, factors=(1, -1))
    with pytest.raises(ValueError, match="base='rtt'; it is 'rto' or 'estimate'"):
        Environment(YARD, base="rtt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bounds are from 0.001 to 60 s"):
        Environment(YARD, rto=(2, 1))
    with pytest.raises(ValueError, match="options: sed; known are cell and replication"):
        Environment(YARD).reset(options={"sed": 1})
    with pytest.raises(ValueError, match="replication 2: the cell has 0 to 1"):
        Environment(YARD).reset(options={"replication": 2})
    environment = Environment(YARD)
    environment.reset()
    for action in (5, -1, 0.5, float("nan"), "2", None):
        with pytest.raises(ValueError, match="action .*; it must be an integer from 0 to 4, the place"):
            environment.step(action)
    numbers = Environment(YARD, factors=None)
    numbers.reset()
    for action in (None, float("nan"), np.array([1.5]), np.array([0.5, 0.5])):
        with pytest.raises(ValueError, match="it must be an array with one number from -1 to 1"):
            numbers.step(action)
    with pytest.raises(ValueError, match="at least one, and each once"):
        VectorEnvironment([environment, environment])
    with pytest.raises(ValueError, match="action spaces differ"):
        VectorEnvironment([environment, numbers])
    with pytest.raises(ValueError, match="1 actions for 2"):
        VectorEnvironment([environment, Environment(YARD)]).step([1])


def test_an_exception_of_the_reward_ends_no_episode() -> None:
    def fails(exchange: Exchange) -> float:
        raise LookupError(exchange.outcome)

    environment = Environment(YARD, reward=fails)
    environment.reset(seed=1)
    with pytest.raises(LookupError, match="acknowledged"):
        for _ in range(100):
            environment.step(UNCHANGED)
    vector = VectorEnvironment([environment, Environment(YARD)])
    vector.reset(seed=1)
    with pytest.raises(LookupError, match="acknowledged"):
        for _ in range(100):
            vector.step([UNCHANGED] * 2)
    with pytest.raises(RuntimeError, match="call reset"):
        vector.step([UNCHANGED] * 2)
    vector.reset()


def test_an_invalid_action_of_a_vector_changes_nothing() -> None:
    found: list[list[float]] = []
    for wrong in (False, True):
        vector = VectorEnvironment([Environment(YARD), Environment(YARD)])
        vector.reset(seed=1)
        rewards: list[float] = []
        for _ in range(10):
            if wrong:
                with pytest.raises(ValueError, match="action 7"):
                    vector.step([0, 7])
            rewards += vector.step([1, 3])[1].tolist()
        found.append(rewards)
    assert found[0] == found[1]


def test_a_vector_does_what_its_environments_do_alone() -> None:
    number, steps = 3, 150
    vector = VectorEnvironment([Environment(YARD) for _ in range(number)])
    assert isinstance(vector, gymnasium.vector.VectorEnv)
    observations, infos = vector.reset(seed=7)
    assert vector.observation_space.contains(observations) and observations.dtype == np.float32
    found = [[(observations[place].tolist(), 0.0, infos["time"][place])] for place in range(number)]
    for _ in range(steps):
        actions = [by_turns(observation) for observation in observations]
        observations, rewards, terminated, truncated, infos = vector.step(np.array(actions))
        assert not terminated.any()
        for place in range(number):
            found[place].append((observations[place].tolist(), rewards[place], infos["time"][place]))
    vector.close()
    for place in range(number):
        environment = Environment(YARD)
        alone: list[tuple[Any, ...]] = []
        while len(alone) <= steps:
            seed = None if alone else 7 + place
            alone += [(seen.tolist(), got, info["time"]) for seen, got, info in episode(environment, by_turns, seed=seed)]
        assert found[place] == alone[: steps + 1]
        environment.close()
    assert infos["ended"].dtype == object and infos["_ended"].all()


def simulations() -> int:
    """Number of threads that simulate."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("reads /proc")
    names: list[str] = []
    for task in tasks.iterdir():
        try:
            names.append((task / "comm").read_text())
        except OSError:
            pass  # It has ended.
    return names.count("conche-gym\n")


def no_simulation_is_left() -> None:
    gc.collect()
    began = time.monotonic()
    while simulations() > 0:
        assert time.monotonic() < began + LIMIT
        time.sleep(0.01)


def test_threads_end_with_their_episodes() -> None:
    no_simulation_is_left()
    environments = [Environment(YARD) for _ in range(4)]
    vector = VectorEnvironment(environments)
    vector.reset()
    assert simulations() == 4
    vector.reset()
    assert simulations() == 4
    vector.close()
    assert simulations() == 0
    vector.reset()
    del vector, environments
    no_simulation_is_left()


def test_a_fork_begins_its_own_episodes() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("forks")
    environment = Environment(YARD)
    environment.reset(seed=1)
    child = os.fork()
    if child == 0:
        try:
            environment.step(UNCHANGED)
        except RuntimeError as error:
            again = "another process" in str(error)
            environment.reset(seed=1)
            environment.step(UNCHANGED)
            os._exit(0 if again else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    environment.step(UNCHANGED)


INTERRUPTED = """
import sys, conche
from conche.gym import Environment, VectorEnvironment
environment = Environment(sys.argv[1], nodes="meter[0]", cell="default/2")
vector = VectorEnvironment([environment])
vector.reset()
wait = conche._conche.wait
def waits(simulations):
    print("begun", flush=True)
    return wait(simulations)
conche._conche.wait = waits
try:
    vector.step([2])
except KeyboardInterrupt:
    vector.close()
    print("interrupted", flush=True)
    sys.exit(7)
"""

ENDLESS = SCENARIO.replace('duration = "5s"', 'duration = "100000h"').replace(
    'to = "server"\n', 'to = "server"\npace = { at = ["0s"] }\n\n[[traffic]]\nname = "on"\nfrom = "pump"\nto = "server"\n'
).replace('{ name = "server" }', '{ name = "server" }, { name = "pump" }') + """
[[links]]
name = "cable"
between = ["pump", "server"]
wire = { rate = "1Mbit/s", delay = "1ms" }
"""
"""The agent decides once; a pump goes on."""


def test_ctrl_c_interrupts_a_step() -> None:
    if os.name != "posix":
        pytest.skip("sends SIGINT")
    command = [sys.executable, "-c", INTERRUPTED, ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    assert output.splitlines()[-1] == "interrupted" and process.returncode == 7


def test_an_import_without_gymnasium_names_the_extra() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import conche.gym"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'ImportError: conche.gym needs Gymnasium and NumPy; pip install "conche[gym]"' in ran.stderr


def test_wrong_uses_are_explained() -> None:
    with pytest.raises(TypeError, match="act: a function"):
        conche.gym.Policy("dqn")  # type: ignore[arg-type]
    environments = conche.gym.VectorEnvironment([conche.gym.Environment("lossy-lan")])
    environments.reset(seed=np.int64(3))  # type: ignore[arg-type]
    environments.close()
    with pytest.raises(RuntimeError, match="call reset"):
        environments.step([0])
