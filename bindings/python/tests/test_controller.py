"""Controllers written in Python."""

from __future__ import annotations

import os
import pickle
import pydoc
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import conche
import conche.gym
import polars
import pyarrow
import pytest
from conche.controller import (
    Acknowledged,
    Admission,
    Controller,
    Expired,
    Features,
    Flight,
    Load,
    Peer,
    Sent,
    Snapshot,
    Submission,
)
from conftest import LIMIT
from test_lab import SCENARIO


class Smooth(Controller):
    """Twice the smoothed round-trip time."""

    def __init__(self, gain: float = 0.125) -> None:
        self.gain = gain

    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        if event.strong_rtt is not None:
            peer.rto += self.gain * (2 * event.strong_rtt - peer.rto)


class Unchanged(Controller):
    """RFC 7252's default by the methods of the base class, in Rust."""

    def measures_rtt(self) -> bool:
        return False


class ByPython(Unchanged):
    """The same by those in Python."""

    def sent(self, peer: Peer, flight: Flight, event: Sent) -> float:
        return super().sent(peer, flight, event)

    def base(self, peer: Peer, now: float) -> float:
        return super().base(peer, now)

    def admit(self, peer: Peer, now: float, message: Submission, load: Load) -> Admission | float:
        return super().admit(peer, now, message, load)

    def expired(self, peer: Peer, flight: Flight, event: Expired) -> float:
        return super().expired(peer, flight, event)

    def snapshot(self, peer: Peer) -> Snapshot:
        return super().snapshot(peer)


@dataclass(frozen=True)
class Configured(Controller):
    """Parameters as a frozen dataclass."""

    rto: float = 3.0
    name = "configured"

    def peer(self, now: float) -> Peer:
        return Peer(rto=self.rto)


def values(*controllers: object) -> dict[str, list[float]]:
    experiment = conche.Experiment(SCENARIO).only(meters=4).controllers(*controllers)  # type: ignore[arg-type]
    frame = polars.DataFrame(experiment.run().values)
    return {scheme: frame.filter(polars.col("scheme") == scheme)["measured"].to_list() for scheme in frame["scheme"]}


def test_controllers_run_beside_others() -> None:
    found = values("default", Smooth, Smooth(gain=0.5), Configured(), "cocoa")
    assert list(found) == ["default", "Smooth", "Smooth(gain=0.5)", "configured", "cocoa"]
    assert len({tuple(measured) for measured in found.values()}) == 5


def test_methods_that_are_not_overridden_do_what_the_base_class_states() -> None:
    found = values("default", Unchanged, ByPython)
    assert found["default"] == found["Unchanged"]
    assert found["ByPython"] == pytest.approx(found["default"], rel=1e-4)


class Raising(Controller):
    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        raise LookupError(f"at {event.kind}")


class NotANumber(Controller):
    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        peer.rto = float("nan")


class TooLong(Controller):
    def sent(self, peer: Peer, flight: Flight, event: Sent) -> float:
        return 1e300


class Negative(Controller):
    def base(self, peer: Peer, now: float) -> float:
        return -1


class NoResult(Controller):
    def sent(self, peer: Peer, flight: Flight, event: Sent) -> float:  # type: ignore[empty-body]
        pass


class Before(Controller):
    def admit(self, peer: Peer, now: float, message: Submission, load: Load) -> Admission | float:
        return now


WRONG = [
    (Raising, "Raising.acknowledged raised:\nTraceback .*\n.*test_controller.py.*\n.*LookupError: at piggybacked"),
    (NotANumber, "NotANumber.acknowledged set peer.rto to nan; it must be a number of seconds from 0 to 4294"),
    (TooLong, r"TooLong.sent returned 1e\+300; it must be a number of seconds from 0 to 4294"),
    (Negative, "Negative.base returned -1; it must be a number of seconds"),
    (NoResult, "NoResult.sent returned None; it must be a number of seconds"),
    (Before, r"Before.admit returned \d.*; it must be an Admission .* or a later time"),
]


@pytest.mark.parametrize(("wrong", "problem"), WRONG)
def test_an_error_fails_the_controllers_runs_only(wrong: type[Controller], problem: str) -> None:
    experiment = conche.Experiment(SCENARIO).only(meters=4)
    with pytest.raises(conche.RunFailure, match=f"(?s){problem}"):
        experiment.controllers(wrong).run()
    with pytest.warns(RuntimeWarning, match="2 of 4 runs failed"):
        results = experiment.controllers("default", wrong).run()
    failures = results.failures
    assert [failure.cell for failure in failures] == [f"{wrong.__name__}/4"] * 2
    assert "default" in polars.DataFrame(results.values)["scheme"].to_list()


def test_errors_come_before_the_first_run() -> None:
    class NoPeer(Controller):
        def peer(self, now: float) -> Peer:
            return None  # type: ignore[return-value]

    experiment = conche.Experiment(SCENARIO)
    with pytest.raises(TypeError, match="NoPeer.peer returned None; it must be a conche.controller.Peer"):
        experiment.controllers(NoPeer)
    with pytest.raises(conche.ScenarioError, match="two congestion controllers are called Smooth"):
        experiment.controllers(Smooth, Smooth)
    with pytest.raises(TypeError, match="not int"):
        experiment.controllers(5)  # type: ignore[arg-type]
    sourceless: dict[str, type[Controller]] = {}
    exec("class Sourceless(Controller): pass", {"Controller": Controller}, sourceless)
    with pytest.raises(ValueError, match="Sourceless has no source.*`version = 1`"):
        experiment.controllers(sourceless["Sourceless"])
    sourceless["Sourceless"].version = 1
    assert experiment.controllers(sourceless["Sourceless"]).plan()


def test_results_belong_to_source_parameters_and_version(tmp_path: Path) -> None:
    def planned(controller: Controller) -> list[str]:
        return [run.id for run in conche.Experiment(SCENARIO).controllers(controller).plan()]

    class Same(Smooth):
        name = "same"

    other = Same()
    assert planned(Same()) == planned(other)
    other.gain = 0.25
    assert planned(Same()) != planned(other)
    other = Same()
    other.version = 2
    assert planned(Same()) != planned(other)
    experiment = conche.Experiment(SCENARIO).only(meters=4).controllers(Smooth)
    first = experiment.run(output=tmp_path)
    journal = (tmp_path / "runs.ndjson").read_bytes()
    again = experiment.run(output=tmp_path)
    assert (tmp_path / "runs.ndjson").read_bytes() == journal
    assert pyarrow.table(again.values) == pyarrow.table(first.values) == pyarrow.table(conche.open(tmp_path).values)


def test_an_experiment_is_pickled_with_its_controllers() -> None:
    experiment = conche.Experiment(SCENARIO).only(meters=4).controllers("default", Smooth(gain=0.5), Configured())
    again = pickle.loads(pickle.dumps(experiment))
    assert again == experiment
    assert pyarrow.table(again.run().values) == pyarrow.table(experiment.run().values)


def test_threads_progress_and_controller_share_the_interpreter() -> None:
    calls: list[tuple[int, int]] = []
    experiment = conche.Experiment(SCENARIO).replications(4).controllers("default", Smooth, ByPython)
    one = experiment.run(jobs=1)
    two = experiment.run(jobs=2, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0
    assert pyarrow.table(two.values) == pyarrow.table(one.values)


def test_events_are_values() -> None:
    event = Acknowledged(3.15, [1.0, 3.0], kind="empty", load=Load(exchanges=2))
    assert event == Acknowledged(3.15, (1.0, 3.0), kind="empty", load=Load(exchanges=2))
    assert (event.retransmissions, event.rtt, event.strong_rtt) == (1, 2.15, None)
    assert (event.copy.certainty, event.load.exchanges, event.load.non.last) == ("unknown", 2, None)
    with pytest.raises(AttributeError):
        event.now = 1  # type: ignore[misc]
    with pytest.raises(ValueError, match="piggybacked, empty or separate"):
        Acknowledged(1, [0], kind="late")  # type: ignore[arg-type]
    peer = Peer()
    Smooth().acknowledged(peer, Flight(), Acknowledged(1.5, [1.0]))
    assert peer.rto == 1.875
    assert Features().weak_rtt is None


INTERRUPTED = """
import os, sys, time, conche
from conche.controller import Controller
class Own(Controller):
    version = 1
    def acknowledged(self, peer, flight, event):
        if peer.srtt is None:
            print("begun", flush=True)
        peer.srtt = event.strong_rtt or peer.srtt
experiment = conche.Experiment(sys.argv[1]).set("duration", "100h").replications(1000).controllers(Own, "default")
try:
    experiment.run(jobs=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


def test_ctrl_c_interrupts_a_controller() -> None:
    if os.name != "posix":
        pytest.skip("sends SIGINT")
    command = [sys.executable, "-c", INTERRUPTED, SCENARIO]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    assert output.splitlines()[-1] == "interrupted" and process.returncode == 7


BUSY = """
import os, sys, threading, time, conche
from conche import conformance
from conche.controller import Controller
class Busy(Controller):
    version = 1
    def acknowledged(self, peer, flight, event):
        print("begun", flush=True)
        while True:
            pass
def run():
    conche.Experiment(sys.argv[1]).controllers(Busy).run()
def suite():
    conformance.violations(Busy)
try:
    {"run": run, "suite": suite}[sys.argv[2]]()
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize("work", ["run", "suite"])
def test_ctrl_c_interrupts_a_method_that_computes(work: str) -> None:
    if os.name != "posix":
        pytest.skip("sends SIGINT")
    command = [sys.executable, "-c", BUSY, SCENARIO, work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 7, errors


class Counting(Controller):
    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        self.count = 1


class Listing(Controller):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        self.seen.append(event.now)


def test_state_that_runs_would_share_is_reported() -> None:
    experiment = conche.Experiment(SCENARIO).only(meters=4)
    with pytest.raises(conche.RunFailure, match=r"a method set self.count, which all runs share; keep state in a Peer"):
        experiment.controllers(Counting).run()
    with pytest.warns(RuntimeWarning, match="Listing changed its own attributes during runs"):
        experiment.controllers(Listing()).run()
    own = Smooth()
    conche.gym.Environment(experiment.controllers(own, "default"))
    own.gain = 0.5


def test_a_misspelt_method_is_named() -> None:
    with pytest.raises(TypeError, match="Misspelt.acknowledge: did you mean acknowledged?"):

        class Misspelt(Controller):
            def acknowledge(self, peer: Peer, flight: Flight, event: Acknowledged) -> None: ...


def test_failed_runs_give_a_warning() -> None:
    experiment = conche.Experiment(SCENARIO).only(meters=4).controllers(["default", Raising])
    problem = "2 of 4 runs failed, the first in .*, Raising/4, replication 0: LookupError"
    with pytest.warns(RuntimeWarning, match=problem) as warned:
        results = experiment.run()
    assert warned[0].filename == __file__
    assert "2 of 4 runs failed" in repr(results) and "2 of 4 runs failed" in results._repr_html_()


def test_help_describes_events_and_features() -> None:
    for of in (Acknowledged, Expired, Load, Sent, Submission):
        assert of.__doc__
        for name, attribute in vars(of).items():
            assert name.startswith("_") or attribute.__doc__, (of, name)
    assert "identified transmission" in pydoc.render_doc(Acknowledged)
    assert "`min_rtt`" in pydoc.render_doc(conche.gym)
