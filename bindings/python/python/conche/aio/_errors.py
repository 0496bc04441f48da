"""Exceptions: why a request has no response, or a server does not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conche._conche import Failure

from ._codes import Code

if TYPE_CHECKING:
    from ._messages import Response


class Error(Exception):
    """Base class of the errors of conche.aio."""

    was_sent: bool = False
    """Whether the request may have had an effect, which makes repeating it unsafe."""


class InvalidRequest(Error, ValueError):
    """The URI, an option or another part of the request is invalid. Nothing was sent."""


class ConfigError(Error, ValueError):
    """Settings are invalid, or contradict each other."""


class ResolveError(Error):
    """The host's name cannot be resolved."""


class NetworkError(Error, OSError):
    """The operating system refuses a socket or a datagram."""


class Unreachable(NetworkError):
    """The network reports that the peer is unreachable: often no program listens at its port."""


class Timeout(Error, TimeoutError):
    """The request's timeout passed, or all retransmissions were unanswered (RFC 7252 §4.2)."""


class Reset(Error):
    """The peer rejected the message with a Reset (RFC 7252 §4.2)."""


class Busy(Error):
    """Too many requests wait. The text names the limit; nothing was sent."""


class TooLarge(Error):
    """A payload exceeds the client's `body_limit`, or a message its maximum size."""


class SecurityError(Error):
    """DTLS or OSCORE does not authenticate the peer, or its session ended."""


class ProtocolError(Error):
    """The response violates the protocol, or its body changed during a block-wise transfer."""


class Closed(Error):
    """The client or server was closed."""


class ResponseError(Error):
    """The response has an error code: 4.xx or 5.xx.

    Raised by `Response.raise_for_status` only.
    """

    was_sent = True

    def __init__(self, text: str, response: Response) -> None:
        super().__init__(text)
        self.response = response
        """The response."""


class Rejection(Exception):
    """Raised by a handler: the server responds with this error code.

    `diagnostic` is a text for humans (RFC 7252 §5.5.2). Raises ValueError if the code is not
    4.xx or 5.xx.
    """

    def __init__(self, code: int, diagnostic: str = "") -> None:
        code = Code(code)
        if code >> 5 not in (4, 5):
            raise ValueError(f"{code} is no error code, such as Code.NOT_FOUND")
        super().__init__(f"{code}: {diagnostic}" if diagnostic else str(code))
        self.code = code
        """The response code."""
        self.diagnostic = diagnostic
        """The payload of the response."""


_KINDS: dict[str, type[Error]] = {
    "request": InvalidRequest,
    "config": ConfigError,
    "resolve": ResolveError,
    "network": NetworkError,
    "unreachable": Unreachable,
    "timeout": Timeout,
    "reset": Reset,
    "busy": Busy,
    "too_large": TooLarge,
    "security": SecurityError,
    "protocol": ProtocolError,
    "closed": Closed,
}


def error_of(failure: Failure) -> Error:
    """Returns the exception of a failure."""
    error = _KINDS.get(failure.kind, Error)(failure.text)
    error.was_sent = failure.was_sent
    return error
