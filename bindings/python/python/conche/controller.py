"""Congestion controllers written in Python.

    class Smooth(conche.controller.Controller):
        \"""Twice the smoothed round-trip time.\"""

        def __init__(self, gain: float = 0.125) -> None:
            self.gain = gain

        def acknowledged(self, peer, flight, event):
            if event.strong_rtt is not None:
                peer.rto += self.gain * (2 * event.strong_rtt - peer.rto)

    conche.run("lossy-lan", controllers=["default", Smooth, Smooth(gain=0.5)], quick=True)

All times are in seconds; `now` counts from the start of a run. Controllers run inside the endpoint's
safety envelope, as all others do.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any

from conche import _conche
from conche._conche import (
    Abandoned,
    AckedCopy,
    Acknowledged,
    Expired,
    Load,
    NonHistory,
    PathHistory,
    Sent,
    Submission,
)

if TYPE_CHECKING:
    from typing import Generic

    from typing_extensions import Self, TypeVar

    P = TypeVar("P", bound="Peer", default="Peer")
    F = TypeVar("F", bound="Flight", default="Flight")
else:
    P = F = None

    class Generic:
        """Takes one parameter or two: type variables have defaults from Python 3.13 on only."""

        def __class_getitem__(cls, states):
            return cls

__all__ = [
    "Abandoned",
    "AckedCopy",
    "Acknowledged",
    "Admission",
    "AnyController",
    "Controller",
    "Expired",
    "Features",
    "Flight",
    "Load",
    "NonHistory",
    "PathHistory",
    "Peer",
    "Sent",
    "Snapshot",
    "Submission",
]

CAP = 60.0
"""Maximum timeout of the default methods, in seconds."""


STATE = "keep state in a Peer or Flight, which `peer` and `flight` return"
"""Advice in errors."""


class Admission(Enum):
    """Result of `Controller.admit`, besides a later time at which to ask again."""

    SEND = "send"
    """Send now."""
    SEND_CONFIRMABLE = "send-confirmable"
    """Send this Non-confirmable message now, as Confirmable."""
    ON_EVENT = "on-event"
    """The window is full: ask again after the peer's next event."""


@dataclass
class Peer:
    """State of one destination. Subclasses, such as other dataclasses, add to it."""

    rto: float = 2.0
    """Initial timeout of a new exchange before randomisation, in seconds, up to 4294."""
    srtt: float | None = None
    """Smoothed round-trip time in seconds, if any, for logs and metrics."""
    rttvar: float | None = None
    """Variation of round-trip times in seconds, if any, for logs and metrics."""


@dataclass
class Flight:
    """State of one exchange. Subclasses add to it."""

    timeout: float | None = None
    """The last timeout of a Confirmable message, in seconds; None before the first transmission."""


@dataclass(frozen=True)
class Snapshot:
    """A peer's estimates for logs and metrics, in seconds."""

    rto: float
    srtt: float | None = None
    rttvar: float | None = None


@dataclass(frozen=True)
class Features:
    """Row of the feature table. The conformance suite has other expectations for others."""

    strong_rtt: bool = True
    """Exchanges without a retransmission give samples of the round-trip time."""
    weak_rtt: int | None = None
    """Maximum retransmissions of an exchange that gives a sample; None: no weak samples."""
    dithering: str = "[1, 1.5]"
    """Randomisation of the first timeout; `none` without."""
    backoff: str = "binary"
    """Growth of the timeout with retransmissions; starts with `none` without."""
    ageing: str = "none"
    """Change of the RTO while idle; starts with `none` without."""
    reuses_backed_off_rto: bool = False
    """A backed-off timeout carries over to the next exchange."""


class Controller(Generic[P, F]):
    """A congestion controller. Subclasses override at least one method; each that they do not runs
    in Rust, as fast as in other controllers, and does what its code here states.

    Without other methods, it is RFC 7252's default, with `peer.rto` as ACK_TIMEOUT.

    Parameters are arguments of `__init__`. `Controller[State]` declares that peers are of a subclass
    of Peer. An exception, or an invalid value, ends the run, and is its failure.

    Stored results belong to the text of the class and its bases, its parameters and its `version`:
    an edit repeats the runs. A change of functions outside the class does not: change `version`.

    All runs share the instance, in any order. A method that sets an attribute of `self` fails its
    run; a changed list or dict gives a RuntimeWarning. `peer` and `flight` return the state of a run.
    """

    name: str = ""
    """Name in tables; by default that of the class, with the arguments of an instance."""
    version: int | str | None = None
    """Changes with the behaviour. A class without source, as of `python -c`, needs it."""
    features: Features = Features()

    _given: str = ""

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        controller = super().__new__(cls)
        given = [repr(argument) for argument in arguments]
        given += [f"{name}={value!r}" for name, value in named.items()]
        if given:
            # Also for frozen dataclasses.
            object.__setattr__(controller, "_given", ",".join(given))
        return controller

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        known = [name for name, value in vars(Controller).items() if callable(value) and not name.startswith("_")]
        for method in vars(cls):
            near = get_close_matches(method, known, 1, 0.8)
            if near and method not in known and callable(getattr(cls, method)):
                raise TypeError(f"{cls.__name__}.{method}: did you mean {near[0]}? Other methods start with `_`")

    def __setattr__(self, name: str, value: object) -> None:
        if _conche.is_called(self):
            raise AttributeError(f"a method set self.{name}, which all runs share; {STATE}")
        super().__setattr__(name, value)

    def measures_rtt(self) -> bool:
        """Returns whether timers follow path measurements, as RFC 7252 §4.8.1 requires for an
        ACK_TIMEOUT below 1 s or NSTART above 1."""
        return True

    def peer(self, now: float) -> P:
        """Returns the state of a new destination."""
        return Peer()  # type: ignore[return-value] # pyright: ignore[reportReturnType]

    def flight(self) -> F:
        """Returns the state of a new exchange."""
        return Flight()  # type: ignore[return-value] # pyright: ignore[reportReturnType]

    def seed(self, now: float, history: PathHistory) -> P:
        """Returns the state of a new destination whose path is known.

        By default, the path's smoothed round-trip time is the first sample of a new peer.
        """
        peer = self.peer(now)
        if history.srtt is not None and now >= history.srtt:
            event = Acknowledged(now, [now - history.srtt], AckedCopy("exact", 0))
            self.acknowledged(peer, self.flight(), event)
        return peer

    def admit(self, peer: P, now: float, message: Submission, load: Load) -> Admission | float:
        """Returns whether `message` may leave now, or a later time at which to ask again.

        By default, Confirmable messages leave at once, and Non-confirmable ones an RTO apart, every
        8th as Confirmable (draft-ietf-core-cocoa-03 §5).
        """
        if message.confirmable:
            return Admission.SEND
        spacing = min(self.base(peer, now), message.bytes / max(message.probing_rate, 1))
        if load.non.last is not None and now < load.non.last + spacing:
            return load.non.last + spacing
        confirms = message.may_confirm and load.non.since_confirmable >= 7
        return Admission.SEND_CONFIRMABLE if confirms else Admission.SEND

    def sent(self, peer: P, flight: F, event: Sent) -> float:
        """Returns a transmission's timeout: the wait for an acknowledgement, or for a
        Non-confirmable request's response.

        By default, the first is 1 to 1.5 times the RTO, and each further twice the last, from 1 ms
        to 60 s.
        """
        if event.confirmable and event.attempt > 0 and flight.timeout is not None:
            timeout = max(min(2 * flight.timeout, CAP), flight.timeout)
        else:
            dithered = self.base(peer, event.now) * (1 + 0.5 * event.random / 2**32)
            timeout = min(max(dithered, 0.001), CAP)
        if event.confirmable:
            flight.timeout = timeout
        return timeout

    def expired(self, peer: P, flight: F, event: Expired) -> float:
        """Handles a Confirmable message's expired timer; returns the retransmission's earliest
        time, by default now."""
        return event.now

    def acknowledged(self, peer: P, flight: F, event: Acknowledged) -> None:
        """Handles an exchange's first acknowledgement: Empty ACK or response."""

    def abandoned(self, peer: P, flight: F, event: Abandoned) -> None:
        """Handles an exchange's end without acknowledgement."""

    def drained(self, peer: P, now: float, load: Load) -> None:
        """Handles the end of an idle period, before the next `admit`."""

    def base(self, peer: P, now: float) -> float:
        """Returns a new exchange's RTO before randomisation, after ageing; by default `peer.rto`."""
        return peer.rto

    def snapshot(self, peer: P) -> Snapshot:
        """Returns a peer's estimates for logs and metrics."""
        return Snapshot(peer.rto, peer.srtt, peer.rttvar)


AnyController = str | Controller[Any, Any] | type[Controller[Any, Any]]
"""The name of a controller, or one in Python."""


def own(controller: Controller[Any, Any] | type[Controller[Any, Any]]) -> _conche.OwnController:
    """Returns a controller as the extension module takes it."""
    instance: object = controller() if isinstance(controller, type) else controller
    of = type(instance)
    if not isinstance(instance, Controller):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a controller is a name or a conche.controller.Controller, not {of.__name__}")
    given = instance._given  # pyright: ignore[reportPrivateUsage]
    name = instance.name or of.__name__ + (f"({given})" if given else "")
    features = instance.features
    about = (inspect.getdoc(of) or "").partition("\n")[0]
    return _conche.OwnController(
        instance,
        Controller,
        name,
        _version(instance),
        (
            about if of.__doc__ else "",
            features.strong_rtt,
            features.weak_rtt,
            features.dithering,
            features.backoff,
            features.ageing,
            features.reuses_backed_off_rto,
        ),
    )


def each(controllers: AnyController | Iterable[AnyController]) -> list[AnyController]:
    """Returns one controller or several as a list."""
    if isinstance(controllers, (str, type)) or not isinstance(controllers, Iterable):
        return [controllers]
    return list(controllers)


def select(
    controllers: Iterable[AnyController],
) -> tuple[list[str], list[_conche.OwnController]]:
    """Returns all names in their order, and the controllers in Python."""
    names: list[str] = []
    owned: list[_conche.OwnController] = []
    for controller in controllers:
        if not isinstance(controller, str):
            owned.append(own(controller))
        names.append(controller if isinstance(controller, str) else owned[-1].name)
    return names, owned


def states(controllers: Iterable[_conche.OwnController]) -> list[tuple[str, str]]:
    """Returns names and attributes of controllers; attributes that cannot be pickled are absent."""
    found: list[tuple[str, str]] = []
    for controller in controllers:
        try:
            found.append((controller.name, _state(controller.controller)))
        except Exception:
            found.append((controller.name, ""))
    return found


def _version(controller: Controller[Any, Any]) -> int:
    """Returns a hash of the behaviour: source, parameters, version."""
    parts = [str(controller.version)]
    for of in type(controller).__mro__:
        if of is Controller:
            break
        parts.append(of.__qualname__)
        try:
            parts.append(inspect.getsource(of))
        except (OSError, TypeError):
            if controller.version is None:
                message = (
                    f"{of.__name__} has no source, by which stored results are told apart; "
                    "set `version = 1` in the class, and change it with the behaviour"
                )
                raise ValueError(message) from None
    try:
        parts.append(_state(controller))
    except Exception as error:
        if controller.version is None:
            message = f"{type(controller).__name__} has parameters that cannot be pickled ({error}); set a `version`"
            raise ValueError(message) from None
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "big")


def _state(controller: Controller[Any, Any]) -> str:
    """Returns the attributes of an instance, with or without slots."""
    return json.dumps(controller.__reduce_ex__(2)[2:3], sort_keys=True, default=_pickled)


def _pickled(value: object) -> str:
    return base64.b64encode(pickle.dumps(value, protocol=4)).decode()
