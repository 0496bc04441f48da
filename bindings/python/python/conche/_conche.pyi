"""The extension module: internals of the package, which may change at any time."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, final

__version__: str
LAB_VERSION: str
MAX_JOBS: int
MAX_REPLICATIONS: int

RawOption = tuple[int, bytes]

class Common(TypedDict):
    cc: str | None
    cc_for: list[tuple[str, str]]
    body_limit: int | None
    block_size: int | None
    retry_unreachable: bool

class ClientSettings(TypedDict):
    common: Common
    bind: str | None
    timeout: float | None
    cache: bool
    psk: tuple[bytes, bytes] | None
    roots: bytes | None
    certificate: tuple[bytes, bytes] | None
    oscore: OscoreKeys | None

class ServerSettings(TypedDict):
    common: Common
    psk: list[tuple[bytes, bytes]] | None
    certificate: tuple[bytes, bytes] | None
    client_roots: bytes | None
    oscore: list[OscoreKeys]
    secured_only: bool
    concurrency: int | None

@final
class Queue:
    """Results for one event loop."""

    def __new__(cls) -> Queue: ...
    def fileno(self) -> int: ...
    def take(self) -> list[tuple[int, object]]: ...

@final
class Failure:
    """Why there is no response."""

    kind: str
    text: str
    was_sent: bool

@final
class Received:
    """A response."""

    code: int
    payload: bytes
    options: list[RawOption]
    peer: tuple[str, int]
    peer_identity: str | None
    acknowledged_after: float
    retransmissions: int
    age: float | None

    def problem(self) -> str | None: ...

@final
class OscoreKeys:
    """One end's OSCORE credentials (RFC 8613) for one peer.

    The keys protect each message with a sequence number that must never be used twice. Create one
    object per credentials, and use it for one client or server at a time.

    `OscoreKeys(secret, sender_id=…, recipient_id=…)` is for credentials that no other run of the
    program uses, for their numbers start at 0: `secret` is the master secret, of at least 16
    bytes; the two ids, of at most 7 bytes, are those of this end and of the peer. Raises
    ValueError if one of them is invalid.
    """

    def __new__(
        cls,
        secret: bytes,
        *,
        sender_id: bytes,
        recipient_id: bytes,
        salt: bytes = b"",
        id_context: bytes | None = None,
    ) -> OscoreKeys: ...
    @staticmethod
    def open(path: str | PathLike[str]) -> OscoreKeys:
        """Opens credentials that outlive the program: libcoap's `coap_oscore_conf` file, or
        aiocoap's directory with `settings.json` and `secret.json`. Sequence numbers are stored
        beside them.

        Raises OSError if they cannot be used, for example because others can read the secret.
        """

@final
class Client:
    def __new__(cls, settings: ClientSettings) -> Client: ...
    def request(
        self,
        queue: Queue,
        method: int,
        uri: str,
        payload: bytes,
        options: Sequence[RawOption],
        timeout: float | None,
        confirmable: bool,
    ) -> int: ...
    def observe(
        self,
        method: int,
        uri: str,
        payload: bytes,
        options: Sequence[RawOption],
        timeout: float | None,
    ) -> Observation: ...
    def close(self, queue: Queue, within: float) -> int: ...
    @staticmethod
    def cancel(key: int) -> None: ...

@final
class Observation:
    def next(self, queue: Queue) -> int: ...
    def close(self, queue: Queue) -> int: ...

@final
class Notifier:
    observers: int

    def __new__(cls) -> Notifier: ...
    def notify(self) -> None: ...
    def notify_path(self, path: str) -> None: ...

@final
class Server:
    address: tuple[str, int]

    def client(self) -> Client: ...
    def close(self, queue: Queue, within: float) -> int: ...
    def wait(self, queue: Queue) -> int: ...

@final
class Call:
    """A request for a handler."""

    key: int
    handler: int
    method: int
    payload: bytes
    options: list[RawOption]
    captures: list[str]
    peer: tuple[str, int]
    peer_identity: str | None
    path: str
    for_observers: bool

    def respond(self, code: int | None, format: int | None, payload: bytes, options: Sequence[RawOption]) -> None: ...

RouteParts = tuple[str, list[tuple[int, int]], Notifier | None, list[tuple[str, str]], bool]

def serve(queue: Queue, address: str, settings: ServerSettings, routes: Sequence[RouteParts]) -> tuple[int, int]: ...

class ScenarioError(ValueError):
    """A scenario, or a change to it, is invalid. The text names the place and the expected form."""

class RunFailure(RuntimeError):
    """All runs of an experiment failed. The text has the reason of the first."""

class RunOptions(TypedDict):
    jobs: int | None
    exchanges: bool
    series: float | None
    overwrite: bool

@final
class NonHistory:
    """Non-confirmable messages sent to a peer."""

    def __new__(
        cls,
        last: float | None = None,
        since_confirmable: int = 0,
        unanswered_since: float | None = None,
        unanswered_bytes: int = 0,
    ) -> NonHistory: ...
    @property
    def last(self) -> float | None:
        """Time of the last in seconds; None if its response came while outstanding (RFC 7252 §4.7)."""
    @property
    def since_confirmable(self) -> int:
        """Number since the last Confirmable message, at most 255."""
    @property
    def unanswered_since(self) -> float | None:
        """Time of the first since the peer's last message, in seconds, if any."""
    @property
    def unanswered_bytes(self) -> int:
        """Bytes since the peer's last message."""

@final
class Load:
    """A peer's other messages, in flight and queued."""

    def __new__(
        cls, exchanges: int = 0, bytes: int = 0, queued: int = 0, non: NonHistory | None = None
    ) -> Load: ...
    @property
    def exchanges(self) -> int:
        """Other exchanges in NSTART slots."""
    @property
    def bytes(self) -> int:
        """Bytes of their messages."""
    @property
    def queued(self) -> int:
        """Other messages awaiting admission."""
    @property
    def non(self) -> NonHistory:
        """Non-confirmable messages sent."""

@final
class Submission:
    """A message awaiting admission."""

    def __new__(
        cls, confirmable: bool = True, may_confirm: bool = True, bytes: int = 60, probing_rate: int = 1
    ) -> Submission: ...
    @property
    def confirmable(self) -> bool:
        """Confirmable or Non-confirmable."""
    @property
    def may_confirm(self) -> bool:
        """May be sent as Confirmable, to detect a dead peer."""
    @property
    def bytes(self) -> int:
        """UDP payload plus configured overhead."""
    @property
    def probing_rate(self) -> int:
        """The endpoint's PROBING_RATE (RFC 7252 §4.7, §4.8) in bytes per second."""

@final
class Sent:
    """A transmission."""

    def __new__(
        cls,
        now: float,
        attempt: int = 0,
        confirmable: bool = True,
        bytes: int = 60,
        random: int = 0,
        load: Load | None = None,
    ) -> Sent: ...
    @property
    def now(self) -> float:
        """Time of the transmission in seconds."""
    @property
    def attempt(self) -> int:
        """0 for the original, n for retransmission n."""
    @property
    def confirmable(self) -> bool:
        """Sent as Confirmable."""
    @property
    def bytes(self) -> int:
        """UDP payload plus overhead."""
    @property
    def random(self) -> int:
        """32 uniform random bits for the timeout, the only randomness."""
    @property
    def load(self) -> Load:
        """Other messages of this peer."""

@final
class Expired:
    """An expired retransmission timer."""

    def __new__(cls, now: float, attempt: int = 0, load: Load | None = None) -> Expired: ...
    @property
    def now(self) -> float:
        """Time of the call in seconds, not before the deadline."""
    @property
    def attempt(self) -> int:
        """The timer's transmission: 0 for the original."""
    @property
    def load(self) -> Load:
        """Other messages of this peer."""

@final
class AckedCopy:
    """The transmission that an acknowledgement answers."""

    def __new__(cls, certainty: Literal["exact", "at-least", "unknown"], number: int = 0) -> AckedCopy: ...
    @property
    def certainty(self) -> Literal["exact", "at-least", "unknown"]:
        """Whether it is number `number` (`exact`), this or a later one (`at-least`), or any (`unknown`)."""
    @property
    def number(self) -> int:
        """0 for the original, n for retransmission n."""

@final
class Acknowledged:
    """An exchange's first acknowledgement.

    Its samples of the round-trip time differ after retransmissions: `rtt` counts from the original
    transmission, `strong_rtt` is None, and `rtt_of_known_copy` counts from the answered
    transmission if `copy` identifies it.
    """

    def __new__(
        cls,
        now: float,
        sent: Sequence[float],
        copy: AckedCopy | None = None,
        kind: Literal["piggybacked", "empty", "separate"] = "piggybacked",
        load: Load | None = None,
    ) -> Acknowledged: ...
    @property
    def now(self) -> float:
        """Time of arrival in seconds."""
    @property
    def sent(self) -> tuple[float, ...]:
        """Times of all transmissions in seconds, at least one."""
    @property
    def copy(self) -> AckedCopy:
        """The acknowledged transmission."""
    @property
    def kind(self) -> Literal["piggybacked", "empty", "separate"]:
        """An ACK with the response, an Empty ACK, or a separate response without an ACK before."""
    @property
    def load(self) -> Load:
        """Other messages of this peer."""
    @property
    def retransmissions(self) -> int:
        """Number of retransmissions."""
    @property
    def since_first(self) -> float:
        """Seconds since the original transmission."""
    @property
    def rtt(self) -> float | None:
        """Seconds from the original transmission to `now`, up to 247; None for a separate response."""
    @property
    def strong_rtt(self) -> float | None:
        """`rtt` in seconds if there was no retransmission, so that it is unambiguous (Karn's algorithm); else
        None."""
    @property
    def rtt_of_known_copy(self) -> float | None:
        """Seconds from the only or identified transmission to `now`; None if `copy` is not `exact` after
        retransmissions, and for a separate response."""

@final
class Abandoned:
    """An exchange's end without acknowledgement."""

    def __new__(
        cls,
        now: float,
        sent: Sequence[float],
        reason: Literal["gave-up", "cancelled", "reset", "unreachable"] = "gave-up",
        load: Load | None = None,
    ) -> Abandoned: ...
    @property
    def now(self) -> float:
        """Time of the end in seconds."""
    @property
    def reason(self) -> Literal["gave-up", "cancelled", "reset", "unreachable"]:
        """MAX_RETRANSMIT is exhausted, the application cancels, the peer resets, or the network
        reports the peer unreachable."""
    @property
    def sent(self) -> tuple[float, ...]:
        """Times of all transmissions in seconds, at least one."""
    @property
    def load(self) -> Load:
        """Other messages of this peer."""

@final
class PathHistory:
    """A path's state from all its peers' exchanges."""

    @property
    def heard(self) -> float:
        """Time of the last exchange in seconds."""
    @property
    def srtt(self) -> float | None:
        """Smoothed round-trip time in seconds, if measured."""
    @property
    def rttvar(self) -> float | None:
        """Variation of round-trip times in seconds, if measured."""

def is_called(controller: object) -> bool: ...

@final
class OwnController:
    name: str
    version: int
    controller: Any

    def __new__(
        cls,
        controller: object,
        base: type,
        name: str,
        version: int,
        features: tuple[str, bool, int | None, str, str, str, bool],
    ) -> OwnController: ...
    def violations(self) -> list[tuple[str, str]]: ...

def controllers() -> list[tuple[str, str]]: ...
def parameters(
    name: str,
) -> list[
    tuple[
        str,
        float | int | bool | str,
        tuple[float | int, float | int] | None,
        list[str],
        str | None,
        str,
        str,
    ]
]: ...
def configured(name: str, values: list[tuple[str, str]]) -> str: ...

class Compared(TypedDict):
    controllers: list[str]
    baseline: str | None
    quick: bool
    replications: int | None
    seed: int | None
    set: list[tuple[str, str]]
    only: list[tuple[str, list[str]]]

@final
class Scenario:
    name: str
    title: str
    text: str
    options: str

    @staticmethod
    def read(text: str, file: PathLike[str] | None = None) -> Scenario: ...
    @staticmethod
    def toml(json: str) -> str: ...
    @staticmethod
    def named(name: str) -> Scenario | None: ...
    @staticmethod
    def names() -> tuple[list[str], list[str]]: ...
    def state(self) -> tuple[str, list[tuple[str, str]], str, list[OwnController]]: ...
    @staticmethod
    def restore(
        text: str, files: list[tuple[str, str]], effort: str, own: list[OwnController]
    ) -> Scenario: ...
    def set(self, path: str, value: str) -> Scenario: ...
    def only(self, axis: str, labels: list[str]) -> Scenario: ...
    def controllers(self, names: list[str], own: list[OwnController]) -> Scenario: ...
    def quick(self) -> Scenario: ...
    def replications(self, number: int) -> Scenario: ...
    def seed(self, seed: int) -> Scenario: ...
    def cells(self) -> list[tuple[str, int]]: ...
    def plan(self) -> list[tuple[str, str, int, int, int]]: ...
    def run(
        self,
        directory: PathLike[str],
        options: RunOptions,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[int, int, list[str]]: ...
    @staticmethod
    def compare(
        scenarios: list[Scenario],
        compared: Compared,
        own: list[OwnController],
        directory: PathLike[str],
        options: RunOptions,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[int, int, list[str]]: ...
    def run_part(
        self, directory: PathLike[str], options: RunOptions, ids: list[str]
    ) -> tuple[int, float, list[tuple[str, str]]]: ...
    def collected(self, directory: PathLike[str], options: RunOptions) -> Collected: ...

@final
class Exchange:
    """An exchange of an agent that has ended. Times are in seconds."""

    @property
    def decision(self) -> int:
        """Number of its decision in the episode, from 0."""
    @property
    def node(self) -> str:
        """Name of the node that opened it."""
    @property
    def peer(self) -> str:
        """Name of the destination."""
    @property
    def rto(self) -> float:
        """The agent's RTO."""
    @property
    def began(self) -> float:
        """Virtual time of the first transmission."""
    @property
    def ended(self) -> float:
        """Virtual time of the acknowledgement, or of the end without one."""
    @property
    def duration(self) -> float:
        """From the first transmission to the end."""
    @property
    def outcome(self) -> Literal["acknowledged", "gave-up", "cancelled", "reset", "unreachable"]:
        """How it ended."""
    @property
    def retransmissions(self) -> int:
        """Number of retransmissions."""
    @property
    def spurious(self) -> int:
        """Number of those that left while the answer to an earlier transmission was on its way; the
        simulator knows them."""
    @property
    def rtt(self) -> float | None:
        """Round-trip time of the answered transmission, which the simulator knows; None if none was."""
    @property
    def min_rtt(self) -> float | None:
        """The least `rtt` of the peer so far; None before the first."""

@final
class Measurements:
    """Measurements of a peer, for observations."""

    def __new__(cls, now: float) -> Measurements: ...
    @property
    def estimates(self) -> tuple[float | None, float | None]: ...
    def acknowledged(self, event: Acknowledged) -> None: ...
    def abandoned(self, event: Abandoned) -> None: ...
    def observe(self, event: Sent) -> bytes: ...
    def decide(self, rto: float, event: Sent) -> float: ...

Moment = tuple[
    bytes | None,
    str,
    str,
    float,
    int,
    list[Exchange],
    Literal["terminated", "truncated"] | None,
    str | None,
]
"""Observation, node, peer, time and number of a decision, or of the last one at the end of the run;
ended exchanges; kind of the end; and problem."""

@final
class Simulation:
    """A run that waits for an agent."""

    @staticmethod
    def check(scenario: Scenario, cell: int, nodes: list[str]) -> None: ...
    @staticmethod
    def begin(
        scenario: Scenario, cell: int, replication: int, seed: int | None, nodes: list[str]
    ) -> tuple[int, Simulation]: ...
    def act(self, rto: float) -> None: ...
    def close(self) -> None: ...

def wait(simulations: list[Simulation]) -> list[Moment]: ...

@final
class Collected:
    """A directory of results that takes the runs of parts."""

    def missing(self) -> list[int]: ...
    def add(self, part: PathLike[str]) -> None: ...
    def finish(self, failures: list[tuple[str, str]]) -> tuple[int, int, list[str]]: ...

@final
class ArrowTable:
    columns: list[str]
    length: int

    @staticmethod
    def parquet(file: PathLike[str]) -> ArrowTable: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Stored:
    names: list[str]

    @staticmethod
    def read(directory: PathLike[str]) -> Stored: ...
    runs: int

    def failures(self) -> list[tuple[str, str, int, int, str]]: ...
    def values(self) -> ArrowTable: ...
    def claims(self) -> ArrowTable: ...
    def ranking(self) -> ArrowTable | None: ...
    def compared(self) -> ArrowTable | None: ...
    def ranked(
        self,
    ) -> list[tuple[str | None, str, float | None, float | None, tuple[float, float] | None]]: ...
    def first(self, count: int) -> tuple[list[tuple[str, str, float, tuple[float, float] | None, str]], int]: ...
    def figure(self, column: str, only: list[tuple[str, list[str]]]) -> str: ...
    def html(self) -> str: ...
