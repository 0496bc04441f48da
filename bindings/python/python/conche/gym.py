"""Gymnasium environments for agents that choose retransmission timeouts.

    environment = conche.gym.Environment(conche.Experiment("lossy-lan").only(loss="5%"))
    observation, info = environment.reset(seed=1)
    over = False
    while not over:
        action = environment.action_space.sample()
        observation, reward, terminated, truncated, info = environment.step(action)
        over = terminated or truncated

An episode is one simulated run. A step ends where a node opens its next Confirmable exchange: the
agent chooses the RTO, from which the first timeout is drawn, 1 to 1.5 times as long; each
retransmission doubles it, up to 60 s. The endpoint's safety envelope applies, as for all
controllers. `Policy` makes a trained agent a controller of an `Experiment`.

An observation has the features of `FEATURES`, in its order, which a real endpoint could measure:

- `rto`: RTO of the last exchange with the peer in seconds; before the first, 2.
- `srtt`, `rttvar`: RFC 6298's estimates in seconds from exchanges without retransmission; before
  the first, 0.
- `min_rtt`: the least of these round-trip times in seconds; before the first, 0.
- `elapsed`: duration of the peer's last ended exchange in seconds; before the first, 0.
- `retransmissions`: number of its retransmissions.
- `failed`: 1 if it ended without an acknowledgement.
- `idle`: time since the peer's last acknowledgement in seconds; before the first, since its state
  was made.
- `in_flight`: other exchanges in flight to the peer.
- `queued`: messages to the peer that await admission.

It needs `pip install "conche[gym]"`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

try:
    import gymnasium
    import numpy as np
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError('conche.gym needs Gymnasium and NumPy; pip install "conche[gym]"') from error

from conche import _conche
from conche._conche import Exchange
from conche.controller import Abandoned, Acknowledged, Controller, Flight, Peer, Sent

from ._lab import Experiment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Observation = NDArray[np.float32]
    """The features of one decision, in the order of FEATURES."""
    Base = Literal["rto", "estimate"]
    Infos = dict[str, Any]

__all__ = ["FACTORS", "FEATURES", "Environment", "Exchange", "Policy", "VectorEnvironment", "reward"]

FEATURES = {
    "rto": 4295.0,
    "srtt": 4295.0,
    "rttvar": 4295.0,
    "min_rtt": 4295.0,
    "elapsed": 4295.0,
    "retransmissions": 255.0,
    "failed": 1.0,
    "idle": 4295.0,
    "in_flight": 65535.0,
    "queued": 65535.0,
}
"""Maxima of the features of an observation, which the module describes; minima are 0."""

FACTORS = (0.5, 0.8, 1.0, 1.25, 2.0)
"""Default factors of the RTO."""

RTO = (0.001, 60.0)
"""Default bounds of the RTO in seconds."""


def reward(exchange: Exchange) -> float:
    """Returns the default reward of an exchange that has ended: at most 0.

    Minus the binary logarithm of its duration in units of the peer's least round-trip time, minus 1
    for each spurious retransmission; -10 if it was not acknowledged, and 0 if it was cancelled.
    """
    if exchange.outcome == "cancelled":
        return 0.0
    if exchange.outcome != "acknowledged" or exchange.min_rtt is None:
        return -10.0
    return -math.log2(max(exchange.duration / exchange.min_rtt, 1.0)) - exchange.spurious


@dataclass(frozen=True)
class _Actions:
    """Converts actions to RTOs."""

    factors: tuple[float, ...] | None
    base: Base
    rto: tuple[float, float]

    @classmethod
    def of(cls, factors: Sequence[float] | None, base: Base, rto: tuple[float, float]) -> _Actions:
        least, most = rto
        if base not in ("rto", "estimate"):
            raise ValueError(f"base={base!r}; it is 'rto' or 'estimate'")
        if not 0.001 <= least < most <= 60:
            raise ValueError(f"rto={rto!r}; its bounds are from 0.001 to 60 s, the lower one first")
        if factors is not None:
            factors = tuple(map(float, factors))
            if not factors or not all(0 < factor < math.inf for factor in factors):
                raise ValueError(f"factors={factors!r}; they are positive numbers, or None for actions from -1 to 1")
        return cls(factors, base, (float(least), float(most)))

    def space(self) -> gymnasium.Space[Any]:
        if self.factors is None:
            return gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        return gymnasium.spaces.Discrete(len(self.factors))

    def decided(self, observation: Observation, action: Any) -> float:
        """Returns the RTO in seconds."""
        least, most = self.rto
        if self.factors is None:
            try:
                number = float(np.reshape(action, ()))
            except (TypeError, ValueError):
                number = math.nan
            if not -1 <= number <= 1:
                raise ValueError(f"action {action!r}; it must be an array with one number from -1 to 1")
            return least * (most / least) ** ((number + 1) / 2)
        try:
            place = operator.index(action)
        except TypeError:
            place = -1
        if not 0 <= place < len(self.factors):
            expected = f"an integer from 0 to {len(self.factors) - 1}, the place of one of {self.factors}"
            raise ValueError(f"action {action!r}; it must be {expected}")
        rto, srtt, rttvar = map(float, observation[:3])
        base = srtt + 4 * rttvar if self.base == "estimate" and srtt > 0 else rto
        return min(max(base * self.factors[place], least), most)


class Environment(gymnasium.Env["Observation", Any]):
    """Simulated runs of an experiment, with an agent as the controller of some nodes.

    - `source`: an `Experiment`, or the source of one.
    - `cell`: name of its cell, as in `Experiment.plan`, or several, of which each episode draws one;
      by default all.
    - `nodes`: names of the agent's nodes or groups, such as `"client"` or `"client[3]"`; by default
      all with a scheme of the experiment. Others keep their controller.
    - `factors`: an action is the place of a factor of the base. With None, it is an array with a
      number from -1 to 1, the RTO's place between its bounds on a logarithmic scale.
    - `base`: `"rto"`, the peer's last RTO, or `"estimate"`, SRTT + 4 RTTVAR, and before the first
      sample the last RTO.
    - `rto`: bounds of the RTO in seconds.
    - `reward`: returns the reward of an exchange that has ended. That of a step is the sum over those
      that have ended since the previous one: with a single exchange at a time, the one decided on.

    Observations have the FEATURES of the peer. `info` has:

    - `node`, `peer`, `time`, `decision`: names of the deciding node and its peer, virtual time in
      seconds, and number of the decision in the episode.
    - `ended`: the ended exchanges, with the numbers of their decisions.
    - `cell`, `seed`: those of the run, after `reset`.
    - `problem`: the problem of a run that exceeded its time limit.

    An episode is truncated at the experiment's duration, and terminated if all exchanges have ended.
    The last observation is that of the last decision's peer after its last event. `reset(seed=…)`
    decides all further episodes. `reset(options={"replication": 3})` runs a replication of the
    experiment, and `options={"cell": …}` chooses a cell.

    An environment can be pickled; the result starts anew. It belongs to its process.

    Raises ScenarioError if the scenario is invalid, and ValueError if a cell or node does not exist.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        source: Experiment | str | PathLike[str] | Mapping[str, Any],
        *,
        cell: str | Iterable[str] | None = None,
        nodes: str | Iterable[str] = (),
        factors: Sequence[float] | None = FACTORS,
        base: Base = "rto",
        rto: tuple[float, float] = RTO,
        reward: Callable[[Exchange], float] = reward,
    ) -> None:
        experiment = source if isinstance(source, Experiment) else Experiment(source)
        self._experiment = experiment
        self._scenario = experiment._scenario  # pyright: ignore[reportPrivateUsage]
        self._cells = self._scenario.cells()
        self._names = [name for name, _ in self._cells] if cell is None else [cell] if isinstance(cell, str) else list(cell)
        self._places = [self._place(name) for name in self._names]
        if not self._places:
            raise ValueError("cell: at least one")
        self._nodes = [nodes] if isinstance(nodes, str) else list(nodes)
        for place in self._places:
            _conche.Simulation.check(self._scenario, place, self._nodes)
        self._actions = _Actions.of(factors, base, rto)
        self._reward = reward
        self._simulation: _conche.Simulation | None = None
        self._observation: Observation = np.zeros(len(FEATURES), np.float32)
        self._begun: Infos = {}
        highs = np.array(list(FEATURES.values()), dtype=np.float32)
        self.observation_space = gymnasium.spaces.Box(np.zeros_like(highs), highs, dtype=np.float32)
        self.action_space = self._actions.space()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Infos]:
        """Begins an episode.

        Raises ScenarioError if the scenario cannot run, and ValueError if the agent has no decision in
        the run.
        """
        self._begin(seed, options)
        (moment,) = self._wait([self])
        return self._first(moment)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Infos]:
        """Runs the simulation with this action to the next decision, or to its end.

        Raises ValueError if the action is not in the action space, RuntimeError without an episode, and
        RunFailure if a controller in Python has failed. Ctrl-C ends the episode.
        """
        self._act(self._decided(action))
        (moment,) = self._wait([self])
        return self._next(moment)

    def close(self) -> None:
        """Ends the episode, if any."""
        simulation, self._simulation = self._simulation, None
        if simulation is not None:
            simulation.close()

    def __reduce__(self) -> tuple[Callable[..., Environment], tuple[object, ...]]:
        state = (self._experiment, self._names, self._nodes, self._actions, self._reward)
        return _environment, state

    def _place(self, name: str) -> int:
        """Returns the place of a cell."""
        names = [known for known, _ in self._cells]
        try:
            return names.index(name)
        except ValueError:
            near = get_close_matches(name, names, 3) or names[:5]
            raise ValueError(f"no cell is called {name!r}; did you mean {', '.join(map(repr, near))}?") from None

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        super().reset(seed=None if seed is None else operator.index(seed))
        self.close()
        options = {} if options is None else options
        if unknown := set(options) - {"cell", "replication"}:
            raise ValueError(f"options: {', '.join(sorted(unknown))}; known are cell and replication")
        # Draws the same numbers with any options.
        place = self._places[int(self.np_random.integers(len(self._places)))]
        drawn: int | None = int(self.np_random.integers(2**63))
        if "cell" in options:
            place = self._place(options["cell"])
        name, replications = self._cells[place]
        replication = drawn % replications
        if "replication" in options:
            replication, drawn = int(options["replication"]), None
        seed, self._simulation = _conche.Simulation.begin(self._scenario, place, replication, drawn, self._nodes)
        self._begun = {"cell": name, "seed": seed}

    def _decided(self, action: Any) -> float:
        if self._simulation is None:
            raise RuntimeError("no episode is in progress; call reset()")
        return self._actions.decided(self._observation, action)

    def _act(self, rto: float) -> None:
        if self._simulation is not None:
            self._simulation.act(rto)

    @staticmethod
    def _wait(environments: Sequence[Environment]) -> list[_conche.Moment]:
        simulations = [environment._simulation for environment in environments]
        try:
            return _conche.wait([simulation for simulation in simulations if simulation is not None])
        except BaseException:
            for environment in environments:
                environment.close()
            raise

    def _first(self, moment: _conche.Moment) -> tuple[Observation, Infos]:
        observation, node, peer, time, decision, ended, end, problem = moment
        if observation is None or end is not None:
            self.close()
            of = ", ".join(self._nodes) or "with a scheme"
            hint = "choose other nodes, or a cell whose nodes open Confirmable exchanges"
            found = problem or f"the nodes {of} decided on no exchange"
            raise ValueError(f"{self._begun['cell']}: {found}; {hint}")
        info = {"node": node, "peer": peer, "time": time, "decision": decision, "ended": ended, **self._begun}
        return self._observed(observation), info

    def _next(self, moment: _conche.Moment) -> tuple[Observation, float, bool, bool, Infos]:
        observation, node, peer, time, decision, ended, end, problem = moment
        info: Infos = {"node": node, "peer": peer, "time": time, "decision": decision, "ended": ended}
        if problem is not None:
            info["problem"] = problem
        if end is not None:
            self.close()
        observed = self._observed(observation or b"")
        rewarded = float(sum(map(self._reward, ended)))
        return observed, rewarded, end == "terminated", end == "truncated", info

    def _observed(self, observation: bytes) -> Observation:
        # The caller may change its array.
        self._observation = np.frombuffer(observation, np.float32)
        return np.array(self._observation)


def _environment(
    experiment: Experiment,
    cells: list[str],
    nodes: list[str],
    actions: _Actions,
    reward: Callable[[Exchange], float],
) -> Environment:
    factors, base, rto = actions.factors, actions.base, actions.rto
    return Environment(experiment, cell=cells, nodes=nodes, factors=factors, base=base, rto=rto, reward=reward)


class VectorEnvironment(VectorEnv["Observation", Any, Any]):
    """Environments whose simulations advance at the same time, on threads without Python.

        environments = conche.gym.VectorEnvironment([conche.gym.Environment("lossy-lan") for _ in range(16)])

    Each has the episodes that it has alone with the same seed. An environment whose episode has ended
    is reset by the next step, which ignores its action: `AutoresetMode.NEXT_STEP`. `info` has an array
    for each key of an environment's.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, environments: Sequence[Environment]) -> None:
        self._environments = list(environments)
        if not self._environments or len(set(map(id, self._environments))) < len(self._environments):
            raise ValueError("environments: at least one, and each once")
        first = self._environments[0]
        if any(other.action_space != first.action_space for other in self._environments):
            raise ValueError("environments: their action spaces differ")
        self.num_envs = len(self._environments)
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, self.num_envs)
        self.action_space = batch_space(first.action_space, self.num_envs)
        self._over = [False] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Infos]:
        """Begins all episodes; an integer seeds each environment with the next number."""
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + place for place in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed: {len(seeds)} numbers for {self.num_envs} environments")
        self._over = [False] * self.num_envs
        for environment, own in zip(self._environments, seeds, strict=True):
            environment._begin(own, options)  # pyright: ignore[reportPrivateUsage]
        moments = self._wait()
        begun = [
            environment._first(moment)  # pyright: ignore[reportPrivateUsage]
            for environment, moment in zip(self._environments, moments, strict=True)
        ]
        return np.stack([observation for observation, _ in begun]), _batched([info for _, info in begun])

    def step(
        self, actions: Any
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Runs all simulations to their next decisions, or ends; begins episodes where one has ended.

        Raises as `Environment.step`. An exception of a reward ends all episodes.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions for {self.num_envs} environments")
        # Before any simulation goes on: an invalid action changes nothing.
        rtos = [
            None if is_over else environment._decided(action)  # pyright: ignore[reportPrivateUsage]
            for environment, action, is_over in zip(self._environments, actions, self._over, strict=True)
        ]
        try:
            return self._advanced(rtos)
        except BaseException:
            self.close_extras()
            raise

    def _advanced(
        self, rtos: list[float | None]
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        for environment, rto in zip(self._environments, rtos, strict=True):
            if rto is None:
                environment._begin(None, None)  # pyright: ignore[reportPrivateUsage]
            else:
                environment._act(rto)  # pyright: ignore[reportPrivateUsage]
        observations: list[Observation] = []
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: list[Infos] = []
        for place, (environment, moment) in enumerate(zip(self._environments, self._wait(), strict=True)):
            if rtos[place] is None:
                observation, info = environment._first(moment)  # pyright: ignore[reportPrivateUsage]
            else:
                observation, rewards[place], terminated[place], truncated[place], info = (
                    environment._next(moment)  # pyright: ignore[reportPrivateUsage]
                )
            observations.append(observation)
            infos.append(info)
        self._over = list(map(bool, terminated | truncated))
        return np.stack(observations), rewards, terminated, truncated, _batched(infos)

    def close_extras(self, **_: Any) -> None:
        """Ends all episodes."""
        self._over = [False] * self.num_envs
        for environment in self._environments:
            environment.close()

    def __reduce__(self) -> tuple[type[VectorEnvironment], tuple[list[Environment]]]:
        return VectorEnvironment, (self._environments,)

    def _wait(self) -> list[_conche.Moment]:
        return Environment._wait(self._environments)  # pyright: ignore[reportPrivateUsage]


def _batched(infos: list[Infos]) -> Infos:
    """Returns an array for each key, and which environments have it."""
    batched: Infos = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        values = np.empty(len(infos), dtype=np.float64 if key == "time" else np.int64 if key == "decision" else object)
        has = np.zeros(len(infos), dtype=np.bool_)
        for place, info in enumerate(infos):
            if key in info:
                values[place], has[place] = info[key], True
        batched[key], batched[f"_{key}"] = values, has
    return batched


@dataclass
class _Observed(Peer):
    """A peer with its measurements."""

    measurements: _conche.Measurements | None = None


class Policy(Controller[_Observed]):
    """A trained agent as a controller, with the observations and timers of `Environment`.

        results = experiment.controllers("default", "cocoa", Policy(network.best, "dqn")).run()

    - `act`: returns the action of an observation. Stored results belong to its pickled form: a
      function's is its name, so change `version` with it.
    - `name`: its name in results.
    - `factors`, `base`, `rto`: those of its environment.
    """

    def __init__(
        self,
        act: Callable[[Observation], Any],
        name: str = "policy",
        *,
        factors: Sequence[float] | None = FACTORS,
        base: Base = "rto",
        rto: tuple[float, float] = RTO,
        version: int | str | None = None,
    ) -> None:
        if not callable(act):
            raise TypeError(f"act: a function from an observation to an action, not {act!r}")
        self.act = act
        self.name = name
        self.version = version
        self._actions = _Actions.of(factors, base, rto)

    def peer(self, now: float) -> _Observed:
        return _Observed(measurements=_conche.Measurements(now))

    def sent(self, peer: _Observed, flight: Flight, event: Sent) -> float:
        assert peer.measurements is not None
        if event.confirmable and event.attempt > 0:
            return super().sent(peer, flight, event)
        if event.confirmable:
            observation = np.frombuffer(peer.measurements.observe(event), np.float32)
            peer.rto = self._actions.decided(observation, self.act(observation))
        timeout = peer.measurements.decide(peer.rto, event)
        if event.confirmable:
            flight.timeout = timeout
        return timeout

    def acknowledged(self, peer: _Observed, flight: Flight, event: Acknowledged) -> None:
        assert peer.measurements is not None
        peer.measurements.acknowledged(event)
        peer.srtt, peer.rttvar = peer.measurements.estimates

    def abandoned(self, peer: _Observed, flight: Flight, event: Abandoned) -> None:
        assert peer.measurements is not None
        peer.measurements.abandoned(event)
