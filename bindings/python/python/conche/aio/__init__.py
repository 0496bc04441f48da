"""CoAP client and server for asyncio (RFC 7252), with selectable congestion control.

    import asyncio
    from conche.aio import Client

    async def main() -> None:
        async with Client(timeout=10) as client:
            response = await client.get("coap://[2001:db8::1]/temperature")
            print(response.code, response.text())

    asyncio.run(main())

- `Client` sends requests, and observes resources.
- `Server` serves resources with coroutine functions.
- `Error` is the base class of the exceptions.

All clients and servers of a process share one thread for the protocol, which never holds Python's
global lock: the event loop takes their results in batches. Objects of this module belong to the
event loop that first uses them.
"""

from conche._conche import OscoreKeys

from ._client import Client, Observation
from ._codes import Code, ContentFormat, OptionNumber
from ._errors import (
    Busy,
    Closed,
    ConfigError,
    Error,
    InvalidRequest,
    NetworkError,
    ProtocolError,
    Rejection,
    Reset,
    ResolveError,
    ResponseError,
    SecurityError,
    Timeout,
    TooLarge,
    Unreachable,
)
from ._messages import Option, Request, Response
from ._server import Server

__all__ = [
    "Busy",
    "Client",
    "Closed",
    "Code",
    "ConfigError",
    "ContentFormat",
    "Error",
    "InvalidRequest",
    "NetworkError",
    "Observation",
    "Option",
    "OptionNumber",
    "OscoreKeys",
    "ProtocolError",
    "Rejection",
    "Request",
    "Reset",
    "ResolveError",
    "Response",
    "ResponseError",
    "SecurityError",
    "Server",
    "Timeout",
    "TooLarge",
    "Unreachable",
]
