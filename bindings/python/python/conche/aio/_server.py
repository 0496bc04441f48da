"""The server."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast
from urllib.parse import quote

from conche import _conche
from conche._conche import Call, OscoreKeys

from ._bridge import Bridge, bridge
from ._client import Client, as_bytes, common
from ._codes import Code, ContentFormat, OptionNumber
from ._errors import Closed, ConfigError, Rejection
from ._messages import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger("conche.aio")

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)

_CAPTURE = re.compile(r"\{\*?([^{}]*)\}")

# The endpoint sets these itself.
_OF_THE_HOP = {
    OptionNumber.OBSERVE,
    OptionNumber.OSCORE,
    OptionNumber.CONTENT_FORMAT,
    OptionNumber.Q_BLOCK1,
    OptionNumber.BLOCK2,
    OptionNumber.BLOCK1,
    OptionNumber.SIZE2,
    OptionNumber.Q_BLOCK2,
    OptionNumber.SIZE1,
    OptionNumber.ECHO,
}


class RouteArguments(TypedDict, total=False):
    """Optional arguments of `Server.route`."""

    observable: bool
    hidden: bool
    attributes: Mapping[str, str] | None


class _Route:
    def __init__(self, path: str) -> None:
        self.path = path
        self.handlers: list[tuple[int, int]] = []
        self.notifier: _conche.Notifier | None = None
        self.attributes: list[tuple[str, str]] = []
        self.hidden = False


class Server:
    """A CoAP server with routes to coroutine functions.

        server = Server("[::]:5683")

        @server.get("/temperature/{room}")
        async def temperature(request: Request, room: str) -> str:
            return await thermometer(room)

        asyncio.run(server.serve_forever())

    A handler receives the request and the values of the route's `{name}` segments as keyword
    arguments. It returns

    - a text (text/plain), bytes (application/octet-stream), or a dictionary or list (JSON), with
      the code that the method implies: 2.05 for GET and FETCH, 2.02 for DELETE, 2.04 for others;
    - None for that code without a payload;
    - a `Response` with any code and options.

    It raises `Rejection` for a response with an error code. Another exception is logged with its
    traceback by the logger `conche.aio`, and the client receives 5.00.

    - `address`: IP address or host, and port, to listen on; port 0 selects a free one.
    - `cc`, `cc_for`, `body_limit`, `block_size`, `retry_unreachable`: as for `Client`; congestion
      control governs separate responses and notifications.
    - `psk`: keys by identity. With them, or with `certificate` (PEM of certificate and key), the
      server serves `coaps` only. `client_roots`: PEM of the certificates that authenticate clients.
    - `oscore`: keys, one for each client. `secured_only`: responds with 4.01 to requests that
      neither DTLS nor OSCORE authenticates.
    - `concurrency`: maximum number of handlers that wait, 1024 by default; further requests
      receive 5.03.
    """

    def __init__(
        self,
        address: str = "[::]:5683",
        *,
        cc: str | None = None,
        cc_for: Mapping[str, str] | None = None,
        body_limit: int | None = None,
        block_size: int | None = None,
        retry_unreachable: bool = False,
        psk: Mapping[str, bytes] | Mapping[bytes, bytes] | None = None,
        certificate: tuple[bytes, bytes] | None = None,
        client_roots: bytes | None = None,
        oscore: Sequence[OscoreKeys] = (),
        secured_only: bool = False,
        concurrency: int | None = None,
    ) -> None:
        self._address = address
        self._settings: _conche.ServerSettings = {
            "common": common(cc, cc_for, body_limit, block_size, retry_unreachable),
            "psk": None if psk is None else [(as_bytes(identity), key) for identity, key in psk.items()],
            "certificate": certificate,
            "client_roots": client_roots,
            "oscore": list(oscore),
            "secured_only": secured_only,
            "concurrency": concurrency,
        }
        self._routes: dict[str, _Route] = {}
        self._handlers: list[tuple[Handler, list[str]]] = []
        self._server: _conche.Server | None = None
        self._bridge: Bridge | None = None
        self._key = 0

    def route(
        self,
        method: Code | str,
        path: str,
        *,
        observable: bool = False,
        hidden: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> Callable[[H], H]:
        """Decorates the handler of a method, such as `"GET"`, at a path.

        A segment `{name}` matches any one segment, and a last segment `{*name}` all remaining ones.
        `observable` lets clients observe the resource (RFC 7641); `notify` reports its changes.
        `/.well-known/core` lists the resource with these link `attributes`, such as
        `{"rt": "temperature-c"}`, unless it is `hidden` or its path has captures (RFC 6690).

        Raises ValueError for an unknown method, TypeError if the handler is no coroutine function,
        and RuntimeError while the server runs.
        """
        code = _method(method)
        names: list[str] = _CAPTURE.findall(path)

        def decorate(handler: H) -> H:
            if not inspect.iscoroutinefunction(handler):
                raise TypeError(f"the handler of {code.name} {path} is no coroutine function: write `async def`")
            if self._server is not None:
                raise RuntimeError("routes are added before the server starts")
            route = self._routes.setdefault(path, _Route(path))
            route.handlers.append((code, len(self._handlers)))
            self._handlers.append((handler, names))
            if observable and route.notifier is None:
                route.notifier = _conche.Notifier()
            route.attributes.extend((attributes or {}).items())
            route.hidden = route.hidden or hidden
            return handler

        return decorate

    def get(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of GET at a path. Arguments as for `route`."""
        return self.route(Code.GET, path, **arguments)

    def post(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of POST at a path. Arguments as for `route`."""
        return self.route(Code.POST, path, **arguments)

    def put(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of PUT at a path. Arguments as for `route`."""
        return self.route(Code.PUT, path, **arguments)

    def delete(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of DELETE at a path. Arguments as for `route`."""
        return self.route(Code.DELETE, path, **arguments)

    def fetch(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of FETCH at a path. Arguments as for `route`."""
        return self.route(Code.FETCH, path, **arguments)

    def patch(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of PATCH at a path. Arguments as for `route`."""
        return self.route(Code.PATCH, path, **arguments)

    def ipatch(self, path: str, **arguments: Unpack[RouteArguments]) -> Callable[[H], H]:
        """Decorates the handler of iPATCH at a path. Arguments as for `route`."""
        return self.route(Code.IPATCH, path, **arguments)

    def notify(self, path: str, **captures: str) -> None:
        """Reports a change of an observable resource; returns at once.

        Its handler runs once for all observers, and each receives the response. `path` is that of
        the route; with `captures` only the resource with these values has changed:
        `server.notify("/temperature/{room}", room="kitchen")`.

        Raises ValueError if no observable route has this path or these captures.
        """
        notifier = self._notifier(path)
        if not captures:
            notifier.notify()
            return
        names: list[str] = _CAPTURE.findall(path)
        if set(names) != set(captures):
            raise ValueError(f"{path} has the captures {names}, not {sorted(captures)}")
        notifier.notify_path(_CAPTURE.sub(lambda match: _quoted(match, captures), path))

    def observers(self, path: str) -> int:
        """Returns the number of observers of a route. Raises ValueError as `notify` does."""
        return self._notifier(path).observers

    def _notifier(self, path: str) -> _conche.Notifier:
        route = self._routes.get(path)
        if route is None or route.notifier is None:
            raise ValueError(f"no observable route has the path {path!r}: add it with observable=True")
        return route.notifier

    @property
    def address(self) -> tuple[str, int]:
        """IP address and port that the server is bound to. Raises Closed if it does not run."""
        return self._running().address

    @property
    def uri(self) -> str:
        """The URI of its address, such as `"coap://127.0.0.1:5683"`, with `coaps` if it has keys for DTLS."""
        host, port = self.address
        secured = self._settings["psk"] is not None or self._settings["certificate"] is not None
        return f"{'coaps' if secured else 'coap'}://{f'[{host}]' if ':' in host else host}:{port}"

    def client(self) -> Client:
        """Returns a client that sends from the server's socket, and ends with the server."""
        return Client.of_server(self._running().client())

    def _running(self) -> _conche.Server:
        if self._server is None:
            raise Closed("the server does not run: use `async with server`, or `await server.start()`")
        return self._server

    async def start(self) -> None:
        """Starts the server. `close` ends it; `async with server` does both.

        Raises ConfigError if a route or a setting is invalid, NetworkError if the address cannot be
        bound, and RuntimeError if the server runs already.
        """
        if self._server is not None:
            raise RuntimeError("the server runs already")
        here = bridge()
        routes = [
            (route.path, route.handlers, route.notifier, route.attributes, route.hidden)
            for route in self._routes.values()
        ]
        try:
            self._key, started = _conche.serve(here.queue, self._address, self._settings, routes)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._bridge = here
        here.add_server(self._key, self._call)
        try:
            self._server = cast(_conche.Server, await here.result(started))
        except BaseException:
            here.remove_server(self._key)
            raise

    async def close(self, within: float = 2.0) -> None:
        """Shuts the server down in at most `within` seconds.

        New requests are answered with 5.03. Handlers may finish until a quarter of the time is
        left; others are cancelled. Observations end with 5.03.
        """
        server, self._server = self._server, None
        if server is not None:
            here = bridge()
            try:
                await here.result(server.close(here.queue, within))
            finally:
                here.remove_server(self._key)

    async def wait(self) -> None:
        """Waits until the server ends. Raises Closed if it ended without being closed."""
        here = bridge()
        await here.result(self._running().wait(here.queue))

    async def serve_forever(self) -> None:
        """Starts the server, and closes it when the task is cancelled, as Ctrl-C does."""
        async with self:
            await self.wait()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _call(self, call: Call) -> None:
        task = asyncio.get_running_loop().create_task(self._respond(call))
        if self._bridge is not None:
            self._bridge.handling(call.key, task)

    async def _respond(self, call: Call) -> None:
        handler, names = self._handlers[call.handler]
        try:
            request = Request(call, names)
            code, content_format, payload, options = _answer(await handler(request, **request.captures))
            call.respond(code, content_format, payload, options)
        except Rejection as rejection:
            call.respond(rejection.code, None, rejection.diagnostic.encode(), [])
        except asyncio.CancelledError:
            # Nobody waits for the response any more, or the loop ends.
            call.respond(Code.SERVICE_UNAVAILABLE, None, b"", [])
            raise
        except Exception:
            logger.exception("the handler of %s %s failed", Code(call.method).name, call.path)
            call.respond(Code.INTERNAL_SERVER_ERROR, None, b"", [])
        finally:
            if self._bridge is not None:
                self._bridge.handled(call.key)


def _method(method: Code | str) -> Code:
    found = method if isinstance(method, Code) else Code.__members__.get(method.upper())
    if found is None or not 1 <= found <= 31:
        raise ValueError(f"{method!r} is no method: use GET, POST, PUT, DELETE, FETCH, PATCH or IPATCH")
    return found


def _quoted(match: re.Match[str], captures: Mapping[str, str]) -> str:
    return quote(captures[match[1]], safe="/" if match[0].startswith("{*") else "")


def _answer(result: object) -> tuple[int | None, int | None, bytes, list[tuple[int, bytes]]]:
    """Returns the code, Content-Format, payload and other options of a handler's result."""
    if result is None:
        return None, None, b"", []
    if isinstance(result, str):
        return None, ContentFormat.TEXT_PLAIN, result.encode(), []
    if isinstance(result, bytes):
        return None, ContentFormat.OCTET_STREAM, result, []
    if isinstance(result, (dict, list)):
        return None, ContentFormat.JSON, json.dumps(result, separators=(",", ":")).encode(), []
    if isinstance(result, Response):
        options = [(number, value) for number, value in result.options if number not in _OF_THE_HOP]
        return result.code, result.content_format, result.payload, options
    raise TypeError(
        f"a handler returns a Response, text, bytes, a dictionary, a list or None, not {type(result).__name__}"
    )
