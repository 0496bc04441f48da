"""Responses and requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from conche._conche import Call, Received

from ._codes import Code, ContentFormat, OptionNumber
from ._errors import Rejection, ResponseError

Option = tuple[int, "bytes | str | int"]
"""An option's number and value. An integer becomes the shortest bytes (RFC 7252 §3.2)."""


def encoded_options(options: Iterable[Option]) -> list[tuple[int, bytes]]:
    """Returns options with their values as bytes."""
    return [(int(number), _encoded(value)) for number, value in options]


def _encoded(value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return value.to_bytes((value.bit_length() + 7) // 8, "big")
    return value.encode() if isinstance(value, str) else bytes(value)


class _Message:
    """What requests and responses have in common."""

    __slots__ = ("options", "payload")

    payload: bytes
    options: Sequence[tuple[int, bytes]]

    def option(self, number: int) -> bytes | None:
        """Returns the value of the first option with this number, or None."""
        return next((value for found, value in self.options if found == number), None)

    def _uint(self, number: int) -> int | None:
        value = self.option(number)
        return None if value is None else int.from_bytes(value, "big")

    @property
    def content_format(self) -> int | None:
        """The Content-Format of the payload, if the message has one."""
        return self._uint(OptionNumber.CONTENT_FORMAT)

    @property
    def etag(self) -> bytes | None:
        """The first ETag (RFC 7252 §5.10.6), if there is one."""
        return self.option(OptionNumber.ETAG)


class Response(_Message):
    """A response to a request, received by a client or returned by a handler.

    A text as payload is of the format text/plain, unless the code is that of an error: then it is
    a diagnostic for humans, without a format (RFC 7252 §5.5.2). `max_age` is a number of seconds,
    `location` the absolute path of a created resource. Raises ValueError if the code is not one of
    a response.
    """

    __slots__ = ("_received", "code")

    def __init__(
        self,
        code: int,
        payload: bytes | str = b"",
        *,
        content_format: int | None = None,
        etag: bytes | None = None,
        max_age: int | None = None,
        location: str | None = None,
        options: Iterable[Option] = (),
    ) -> None:
        self.code = Code(code)
        """The response code."""
        if self.code >> 5 not in (2, 4, 5):
            raise ValueError(f"{self.code} is no response code, such as Code.CONTENT")
        if isinstance(payload, str):
            if content_format is None and self.code.is_success:
                content_format = ContentFormat.TEXT_PLAIN
            payload = payload.encode()
        self.payload = payload
        """The payload, which may be empty."""
        all_options = encoded_options(options)
        if content_format is not None:
            all_options.append((OptionNumber.CONTENT_FORMAT, _encoded(content_format)))
        if etag is not None:
            all_options.append((OptionNumber.ETAG, etag))
        if max_age is not None:
            all_options.append((OptionNumber.MAX_AGE, _encoded(max_age)))
        if location is not None:
            segments = location.removeprefix("/").split("/")
            all_options.extend((OptionNumber.LOCATION_PATH, segment.encode()) for segment in segments)
        self.options = all_options
        """All options: pairs of a number and a value."""
        self._received: Received | None = None

    @classmethod
    def received(cls, received: Received) -> Response:
        """Returns a response of the extension module. Only for this package."""
        self = cls.__new__(cls)
        self.code = Code(received.code)
        self.payload = received.payload
        self.options = received.options
        self._received = received
        return self

    @property
    def is_success(self) -> bool:
        """Whether the code is 2.xx."""
        return self.code.is_success

    def raise_for_status(self) -> Response:
        """Returns the response if its code is a success. Raises ResponseError otherwise."""
        if self.is_success:
            return self
        text = self._received.problem() if self._received else None
        raise ResponseError(text or f"the response has the code {self.code}", self)

    def text(self) -> str:
        """Returns the payload as text. Raises UnicodeDecodeError if it is not UTF-8."""
        return self.payload.decode()

    def json(self) -> Any:
        """Decodes the payload as JSON, whatever its format. Raises ValueError if it is not JSON."""
        return json.loads(self.payload)

    @property
    def max_age(self) -> int:
        """The number of seconds for which it is fresh (RFC 7252 §5.10.5); 60 without the option."""
        age = self._uint(OptionNumber.MAX_AGE)
        return 60 if age is None else age

    @property
    def location(self) -> str | None:
        """The path and query of the created resource, if there is one (RFC 7252 §5.10.7)."""
        path = [quote(value) for number, value in self.options if number == OptionNumber.LOCATION_PATH]
        query = [quote(value, safe="=/?") for number, value in self.options if number == OptionNumber.LOCATION_QUERY]
        if not path and not query:
            return None
        return "/" + "/".join(path) + ("?" + "&".join(query) if query else "")

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the sender; None if the program made the response."""
        return self._received.peer if self._received else None

    @property
    def peer_identity(self) -> str | None:
        """The sender as authenticated by DTLS or OSCORE, if it was."""
        return self._received.peer_identity if self._received else None

    @property
    def acknowledged_after(self) -> float | None:
        """Seconds from the first transmission to the acknowledgement: the RTT if nothing was lost."""
        return self._received.acknowledged_after if self._received else None

    @property
    def retransmissions(self) -> int:
        """Number of retransmissions of all messages of the exchange."""
        return self._received.retransmissions if self._received else 0

    @property
    def age(self) -> float | None:
        """Seconds since a cached response was received or validated; None for a new response."""
        return self._received.age if self._received else None

    def __repr__(self) -> str:
        return f"<Response {self.code} with {len(self.payload)} bytes>"


class Request(_Message):
    """A request for a handler."""

    __slots__ = ("_call", "captures", "method")

    def __init__(self, call: Call, names: Sequence[str]) -> None:
        self.method = Code(call.method)
        """The method, such as `Code.GET`."""
        self.payload = call.payload
        """The payload, which may be empty."""
        self.options = call.options
        """All options: pairs of a number and a value."""
        self.captures = dict(zip(names, call.captures, strict=True))
        """The values of the route's `{name}` segments."""
        self._call = call

    @property
    def path(self) -> str:
        """The path, percent-encoded."""
        return self._call.path

    @property
    def accept(self) -> int | None:
        """The wanted Content-Format, if the client wants one (RFC 7252 §5.10.4)."""
        return self._uint(OptionNumber.ACCEPT)

    @property
    def query(self) -> dict[str, str]:
        """The query arguments. One without `=` has an empty value; the last one of a name wins."""
        arguments = [value.decode(errors="replace") for number, value in self.options if number == OptionNumber.URI_QUERY]
        return {name: value for name, _, value in (argument.partition("=") for argument in arguments)}

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the sender, which may be forged unless it has an identity."""
        return self._call.peer

    @property
    def peer_identity(self) -> str | None:
        """The sender as authenticated by DTLS or OSCORE, if it was."""
        return self._call.peer_identity

    @property
    def for_observers(self) -> bool:
        """Whether a notification runs the handler, once for all observers, and without an identity."""
        return self._call.for_observers

    def text(self) -> str:
        """Returns the payload as text. Raises Rejection with 4.00 if it is not UTF-8."""
        try:
            return self.payload.decode()
        except UnicodeDecodeError as error:
            raise Rejection(Code.BAD_REQUEST, f"the payload: {error}") from error

    def json(self) -> Any:
        """Decodes the payload as JSON, whatever its format. Raises Rejection with 4.00 if it is not."""
        try:
            return json.loads(self.payload)
        except ValueError as error:
            raise Rejection(Code.BAD_REQUEST, f"the payload: {error}") from error

    def __repr__(self) -> str:
        return f"<Request {self.method.name} {self.path} from {self.peer}>"
