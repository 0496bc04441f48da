"""Trains a small DQN that chooses timeouts, and runs it beside other controllers.

The network, as in iCoCoA (Donta and others, 2023), maps minimum RTT, RTTVAR, RTO and retransmissions to
the value of each new RTO. Its reward and hyperparameters are conche's own.
"""

import argparse
import copy
from typing import Any

import conche
import numpy as np
import polars
from conche.gym import Environment, Policy, VectorEnvironment
from conche.gym import reward as reward_of

TRAINING = ["lossy-lan", "star", "rtt-step", "route-change", "wi-sun", "nb-iot", "home-uplink", "thin-gateway"]
JUDGEMENT = ["gprs", "short-queue", "leo", "plc"]
ACTIONS: Any = {"factors": (0.75, 1, 1.5, 2.5, 5, 10), "base": "estimate"}
COLUMNS = ["scenario", "row", "scheme", "column", "measured", "ci95_low", "ci95_high"]
INPUTS, OUTPUTS, DISCOUNT, BATCH, REPLAY = 8, 6, 0.5, 256, 50_000


def inputs(observations: Any) -> Any:
    """Returns times as logarithms in units of the minimum RTT, so that networks of all speeds look alike."""
    rto, srtt, rttvar, min_rtt, elapsed, retransmissions, failed, _, in_flight, _ = observations.T
    known = 1.0 * (min_rtt > 0)
    unit, srtt = min_rtt + (1 - known) * rto, srtt + (1 - known) * rto
    times = [np.log2(np.maximum(time / unit, 0.1)) / 4 for time in (rto, srtt, rttvar, elapsed)]
    return np.stack([*times, known, retransmissions / 4, failed, in_flight / 4], axis=-1).astype(np.float32)


class Network:
    """Values of all actions."""

    def __init__(self, random: np.random.Generator) -> None:
        shapes = [(INPUTS, 32), (32, 32), (32, OUTPUTS)]
        self.weights: list[Any] = [random.normal(0, (2 / of) ** 0.5, (of, to)).astype(np.float32) for of, to in shapes]
        self.biases: list[Any] = [np.zeros(to, np.float32) for _, to in shapes]

    def layers(self, values: Any) -> list[Any]:
        layers = [values]
        for weights, bias in zip(self.weights, self.biases, strict=True):
            values = layers[-1] @ weights + bias
            layers.append(values if weights is self.weights[-1] else np.maximum(values, 0))
        return layers

    def __call__(self, observation: Any) -> int:
        """Returns the best action."""
        return int(self.layers(inputs(observation))[-1].argmax())


class Learner:
    """Double DQN with replay, a target network and Adam."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.network = random, Network(random)
        self.replay: list[Any] = [np.zeros((REPLAY, INPUTS), np.float32) for _ in range(2)]
        self.replay += [np.zeros(REPLAY, np.int64), np.zeros(REPLAY, np.float32)]
        self.stored = self.steps = 0
        self.parameters = self.network.weights + self.network.biases
        self.moments: list[Any] = [(np.zeros_like(each), np.zeros_like(each)) for each in self.parameters]

    def store(self, state: Any, following: Any, action: int, reward: float) -> None:
        for column, value in zip(self.replay, (state, following, action, reward), strict=True):
            column[self.stored % REPLAY] = value
        self.stored += 1

    def learn(self) -> None:
        chosen = self.random.integers(min(self.stored, REPLAY), size=BATCH)
        state, following, action, reward = (column[chosen] for column in self.replay)
        if self.steps % 200 == 0:
            self.target = copy.deepcopy(self.network)
        self.steps += 1
        rows = np.arange(BATCH)
        best = self.network.layers(following)[-1].argmax(axis=1)
        wanted = reward + DISCOUNT * self.target.layers(following)[-1][rows, best]
        layers = self.network.layers(state)
        slope = np.zeros_like(layers[-1])
        slope[rows, action] = (layers[-1][rows, action] - wanted).clip(-1, 1) / BATCH
        of_weights, of_biases = list[Any](), list[Any]()
        for layer, weights in reversed(list(zip(layers, self.network.weights, strict=False))):
            of_weights.insert(0, layer.T @ slope)
            of_biases.insert(0, slope.sum(axis=0))
            slope = (slope @ weights.T) * (layer > 0)
        for parameter, of, (mean, square) in zip(self.parameters, of_weights + of_biases, self.moments, strict=True):
            mean += 0.1 * (of - mean)
            square += 0.001 * (of**2 - square)
            parameter -= 1e-3 * mean / (1 - 0.9**self.steps) / ((square / (1 - 0.999**self.steps)) ** 0.5 + 1e-8)


# ANCHOR: train
def train(steps: int, seed: int) -> Network:
    """Trains for this number of steps of two environments per network."""
    experiments = [conche.Experiment(name).quick() for name in 2 * TRAINING]
    environments = VectorEnvironment([Environment(each, **ACTIONS) for each in experiments])
    learner = Learner(np.random.default_rng(seed))
    observations, info = environments.reset(seed=seed)
    waiting: list[dict[tuple[str, str], list[Any]]] = [{} for _ in observations]
    over = np.zeros(len(observations), dtype=bool)
    for step in range(steps):
        states = inputs(observations)
        actions = learner.network.layers(states)[-1].argmax(axis=1)
        explores = learner.random.random(len(actions)) < max(0.05, 1 - 2 * step / steps)
        actions = np.where(explores, learner.random.integers(OUTPUTS, size=len(actions)), actions)
        for place, peers in enumerate(waiting):
            if over[place]:
                peers.clear()
                continue
            # The peer's previous exchange has its reward by now; this state followed it.
            peer = (info["node"][place], info["peer"][place])
            _, state, action, reward = peers.get(peer, [None] * 4)
            if reward is not None:
                learner.store(state, states[place], action, reward)
            peers[peer] = [info["decision"][place], states[place], int(actions[place]), None]
        observations, _, terminated, truncated, info = environments.step(actions)
        over = terminated | truncated
        for place, peers in enumerate(waiting):
            for exchange in info["ended"][place]:
                waits = peers.get((exchange.node, exchange.peer), [None])
                if waits[0] == exchange.decision:
                    waits[3] = reward_of(exchange) / 4
        if learner.stored >= 4 * BATCH:
            learner.learn()
    environments.close()
    return learner.network
# ANCHOR_END: train


# ANCHOR: judge
def judge(network: Network, names: list[str], replications: int) -> polars.DataFrame:
    """Returns times from due and wasted transmissions, with 95 % intervals."""
    rows: list[polars.DataFrame] = []
    for name in names:
        experiment = conche.Experiment(name).quick().replications(replications)
        experiment = experiment.controllers("default", "cocoa", Policy(network, "dqn", **ACTIONS))
        values = polars.DataFrame(experiment.run().values).select(COLUMNS)
        rows.append(values.filter(polars.col("column").is_in(["due_p95_s", "wasted_percent"])))
    return polars.concat(rows)
# ANCHOR_END: judge


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.steps} steps on {', '.join(TRAINING)}")
    with polars.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, float_precision=3):
        print(judge(train(arguments.steps, arguments.seed), JUDGEMENT, 10))
