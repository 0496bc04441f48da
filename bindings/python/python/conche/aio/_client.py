"""The client."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, cast

from conche import _conche
from conche._conche import OscoreKeys, Received

from ._bridge import bridge
from ._codes import Code, ContentFormat, OptionNumber
from ._errors import Closed, ConfigError
from ._messages import Option, Response, encoded_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RequestArguments(TypedDict, total=False):
    """Optional arguments of `Client.request`."""

    json: Any
    content_format: int | None
    accept: int | None
    options: Iterable[Option]
    timeout: float | None
    confirmable: bool


def common(
    cc: str | None,
    cc_for: Mapping[str, str] | None,
    body_limit: int | None,
    block_size: int | None,
    retry_unreachable: bool,
) -> _conche.Common:
    """Returns the settings that clients and servers have in common."""
    return {
        "cc": cc,
        "cc_for": list((cc_for or {}).items()),
        "body_limit": body_limit,
        "block_size": block_size,
        "retry_unreachable": retry_unreachable,
    }


def as_bytes(text: str | bytes) -> bytes:
    """Returns a text in UTF-8."""
    return text.encode() if isinstance(text, str) else text


class Client:
    """A CoAP client.

    It opens its sockets with the first request. Requests to one destination wait for each other as
    congestion control demands: a program may start any number of them at once.

        async with Client() as client:
            response = await client.get("coap://[2001:db8::1]/temperature")
            print(response.raise_for_status().text())

    - `bind`: local address and port, such as `"192.0.2.1:0"`; the operating system's choice by
      default.
    - `cc`: congestion controller by name, with parameters: `"cocoa"` or `"cocoa:weak_k=1"`;
      `conche controllers` lists them. `cc_for` has others for prefixes of addresses:
      `{"2001:db8::/32": "default"}`.
    - `timeout`: seconds that a request may take, with name resolution, queueing and
      retransmissions. Without it the protocol's timeouts add up to minutes.
    - `cache`: answers from responses that are still fresh (RFC 7252 §5.6).
    - `body_limit`: maximum size of a payload in bytes, 65 536 by default. Larger payloads than a
      message are transferred in blocks (RFC 7959) of at most `block_size` bytes, 1024 by default.
    - `retry_unreachable`: retransmits although the network reports the peer as unreachable.
    - `psk`: identity and key for `coaps` URIs (DTLS 1.2). `roots`: PEM of the certificates that
      authenticate servers; `certificate`: PEM of the client's certificate and of its key.
    - `oscore`: keys that protect all requests end to end.

    Raises ConfigError if a setting is invalid.
    """

    def __init__(
        self,
        *,
        bind: str | None = None,
        cc: str | None = None,
        cc_for: Mapping[str, str] | None = None,
        timeout: float | None = None,
        cache: bool = False,
        body_limit: int | None = None,
        block_size: int | None = None,
        retry_unreachable: bool = False,
        psk: tuple[str | bytes, bytes] | None = None,
        roots: bytes | None = None,
        certificate: tuple[bytes, bytes] | None = None,
        oscore: OscoreKeys | None = None,
    ) -> None:
        settings: _conche.ClientSettings = {
            "common": common(cc, cc_for, body_limit, block_size, retry_unreachable),
            "bind": bind,
            "timeout": timeout,
            "cache": cache,
            "psk": None if psk is None else (as_bytes(psk[0]), psk[1]),
            "roots": roots,
            "certificate": certificate,
            "oscore": oscore,
        }
        try:
            self._client: _conche.Client | None = _conche.Client(settings)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def of_server(cls, client: _conche.Client) -> Client:
        """Returns the client of a server's socket. Only for this package."""
        self = cls.__new__(cls)
        self._client = client
        return self

    def _open(self) -> _conche.Client:
        if self._client is None:
            raise Closed("the client was closed")
        return self._client

    async def request(
        self,
        method: Code | int,
        uri: str,
        payload: bytes | str = b"",
        *,
        json: Any = None,
        content_format: int | None = None,
        accept: int | None = None,
        options: Iterable[Option] = (),
        timeout: float | None = None,
        confirmable: bool = True,
    ) -> Response:
        """Sends a request and returns the response, whatever its code.

        A text as payload is of the format text/plain by default; `json` is a value to encode
        instead. `timeout` in seconds overrides the client's. A request with `confirmable=False`
        is sent once, without an acknowledgement. Cancelling the task cancels the request.

        Raises a subclass of Error if there is no response.
        """
        client = self._open()
        body, all_options = _parts(payload, json, content_format, accept, options)
        here = bridge()
        key = client.request(here.queue, method, uri, body, all_options, timeout, confirmable)
        return Response.received(cast(Received, await here.result(key)))

    async def get(self, uri: str, **arguments: Unpack[RequestArguments]) -> Response:
        """GET: reads a resource (RFC 7252 §5.8.1). Arguments as for `request`."""
        return await self.request(Code.GET, uri, **arguments)

    async def delete(self, uri: str, **arguments: Unpack[RequestArguments]) -> Response:
        """DELETE: deletes a resource (RFC 7252 §5.8.4). Arguments as for `request`."""
        return await self.request(Code.DELETE, uri, **arguments)

    async def post(
        self, uri: str, payload: bytes | str = b"", **arguments: Unpack[RequestArguments]
    ) -> Response:
        """POST: has a resource process the payload (RFC 7252 §5.8.2). Arguments as for `request`."""
        return await self.request(Code.POST, uri, payload, **arguments)

    async def put(
        self, uri: str, payload: bytes | str = b"", **arguments: Unpack[RequestArguments]
    ) -> Response:
        """PUT: creates or replaces a resource (RFC 7252 §5.8.3). Arguments as for `request`."""
        return await self.request(Code.PUT, uri, payload, **arguments)

    async def fetch(
        self, uri: str, payload: bytes | str = b"", **arguments: Unpack[RequestArguments]
    ) -> Response:
        """FETCH: reads what the payload describes (RFC 8132 §2). Arguments as for `request`."""
        return await self.request(Code.FETCH, uri, payload, **arguments)

    async def patch(
        self, uri: str, payload: bytes | str = b"", **arguments: Unpack[RequestArguments]
    ) -> Response:
        """PATCH: changes a part of a resource (RFC 8132 §3). Arguments as for `request`."""
        return await self.request(Code.PATCH, uri, payload, **arguments)

    async def ipatch(
        self, uri: str, payload: bytes | str = b"", **arguments: Unpack[RequestArguments]
    ) -> Response:
        """iPATCH: a PATCH that is idempotent (RFC 8132 §3). Arguments as for `request`."""
        return await self.request(Code.IPATCH, uri, payload, **arguments)

    def observe(
        self,
        uri: str,
        payload: bytes | str = b"",
        *,
        method: Code | int = Code.GET,
        content_format: int | None = None,
        accept: int | None = None,
        options: Iterable[Option] = (),
        timeout: float | None = None,
    ) -> Observation:
        """Observes a resource (RFC 7641) with GET or FETCH. `timeout` is that of the first response.

            async with client.observe("coap://[2001:db8::1]/temperature") as states:
                async for response in states:
                    print(response.raise_for_status().text())
        """
        body, all_options = _parts(payload, None, content_format, accept, options)
        return Observation(self._open().observe(method, uri, body, all_options, timeout))

    async def close(self, within: float = 2.0) -> None:
        """Closes the client in at most `within` seconds.

        Requests may finish. Then it deregisters its observations and closes its DTLS sessions.
        """
        client, self._client = self._client, None
        if client is not None:
            here = bridge()
            await here.result(client.close(here.queue, within))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Observation:
    """The states of an observed resource: an asynchronous iterator.

    Each state is newer than those before it; a slow reader skips outdated states. When nothing
    arrives for longer than Max-Age, the client registers again. The iterator ends after a response
    with an error code, and after the first response if the server does not accept the observation.

    `aclose`, or the end of `async with`, deregisters.
    """

    def __init__(self, observation: _conche.Observation) -> None:
        self._observation: _conche.Observation | None = observation

    def __aiter__(self) -> Observation:
        return self

    async def __anext__(self) -> Response:
        """Returns the next state. Raises a subclass of Error if a state cannot be had."""
        if self._observation is None:
            raise StopAsyncIteration
        here = bridge()
        value = await here.result(self._observation.next(here.queue))
        if value is None:
            raise StopAsyncIteration
        return Response.received(cast(Received, value))

    async def aclose(self) -> None:
        """Deregisters, and waits for the server's response.

        Raises a subclass of Error if there is none: the client then rejects the next notification.
        """
        observation, self._observation = self._observation, None
        if observation is not None:
            here = bridge()
            await here.result(observation.close(here.queue))

    async def __aenter__(self) -> Observation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _parts(
    payload: bytes | str,
    json: Any,
    content_format: int | None,
    accept: int | None,
    options: Iterable[Option],
) -> tuple[bytes, list[tuple[int, bytes]]]:
    if json is not None:
        payload = json_module.dumps(json, separators=(",", ":")).encode()
        content_format = ContentFormat.JSON if content_format is None else content_format
    elif isinstance(payload, str):
        payload = payload.encode()
        content_format = ContentFormat.TEXT_PLAIN if content_format is None else content_format
    all_options = encoded_options(options)
    if content_format is not None:
        all_options += encoded_options([(OptionNumber.CONTENT_FORMAT, content_format)])
    if accept is not None:
        all_options += encoded_options([(OptionNumber.ACCEPT, accept)])
    return payload, all_options
