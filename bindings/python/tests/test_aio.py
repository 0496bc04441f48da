"""Client and Server of conche.aio with each other."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conche.aio import (
    Client,
    Closed,
    Code,
    ConfigError,
    ContentFormat,
    InvalidRequest,
    OptionNumber,
    Rejection,
    Request,
    Reset,
    Response,
    ResponseError,
    SecurityError,
    Server,
    Timeout,
    TooLarge,
    Unreachable,
)

from conftest import LIMIT


def new_server(**settings: object) -> Server:
    return Server("127.0.0.1:0", **settings)  # type: ignore[arg-type]


async def test_a_handler_receives_captures_query_and_payload() -> None:
    server = new_server()

    @server.put("/rooms/{room}/{sensor}")
    async def write(request: Request, room: str, sensor: str) -> str:
        assert request.method is Code.PUT and request.peer[0] == "127.0.0.1"
        return f"{room} {sensor} {request.query} {request.text()} {request.content_format} {request.path}"

    async with server, Client() as client:
        response = await client.put(server.uri + "/rooms/kitchen%2F1/t?unit=K&raw", "21")
    assert response.code is Code.CHANGED
    assert response.text() == "kitchen/1 t {'unit': 'K', 'raw': ''} 21 0 /rooms/kitchen%2F1/t"
    assert response.content_format == ContentFormat.TEXT_PLAIN
    assert response.peer == response.peer and response.acknowledged_after is not None


async def test_results_of_handlers_become_responses() -> None:
    server = new_server()

    @server.get("/json")
    async def read_json(request: Request) -> dict[str, int]:
        return {"a": 1}

    @server.get("/bytes")
    async def read_bytes(request: Request) -> bytes:
        return b"\xff"

    @server.delete("/bytes")
    async def remove(request: Request) -> None:
        return None

    @server.post("/bytes")
    async def create(request: Request) -> Response:
        return Response(Code.CREATED, etag=b"v1", max_age=5, location="/a/b c", options=[(65000, 1)])

    async with server, Client() as client:
        assert (await client.get(server.uri + "/json")).json() == {"a": 1}
        response = await client.get(server.uri + "/bytes")
        assert (response.payload, response.content_format) == (b"\xff", ContentFormat.OCTET_STREAM)
        assert (await client.delete(server.uri + "/bytes")).code is Code.DELETED
        created = await client.post(server.uri + "/bytes")
        assert (created.code, created.etag, created.max_age, created.location) == (Code.CREATED, b"v1", 5, "/a/b%20c")
        assert created.option(65000) == b"\x01"


async def test_every_method_reaches_its_handler() -> None:
    server = new_server()

    async def echo(request: Request) -> str:
        return request.method.name

    for method in ("GET", "POST", "PUT", "DELETE", "FETCH", "PATCH", "IPATCH"):
        server.route(method, "/echo")(echo)
    async with server, Client() as client:
        uri = server.uri + "/echo"
        assert (await client.get(uri)).text() == "GET"
        assert (await client.delete(uri)).text() == "DELETE"
        for send in (client.post, client.put, client.fetch, client.patch, client.ipatch):
            assert (await send(uri, json=[1])).text() == send.__name__.upper()


async def test_an_error_response_is_raised_on_demand() -> None:
    server = new_server()

    @server.get("/{name}")
    async def read(request: Request, name: str) -> str:
        raise Rejection(Code.NOT_FOUND, f"no {name}")

    async with server, Client() as client:
        response = await client.get(server.uri + "/x")
        assert (response.code, response.is_success, response.text()) == (Code.NOT_FOUND, False, "no x")
        with pytest.raises(ResponseError, match="4.04 Not Found: no x") as raised:
            response.raise_for_status()
        assert raised.value.response is response
        assert (await client.get(server.uri + "/a/b")).code is Code.NOT_FOUND
        assert (await client.put(server.uri + "/x")).code is Code.METHOD_NOT_ALLOWED


async def test_an_exception_of_a_handler_is_logged_and_becomes_5_00(caplog: pytest.LogCaptureFixture) -> None:
    server = new_server()

    @server.get("/fails")
    async def fails(request: Request) -> str:
        raise KeyError("secret")

    @server.get("/wrong")
    async def wrong(request: Request) -> object:
        return 3.5

    @server.post("/json")
    async def parse(request: Request) -> str:
        return str(request.json())

    with caplog.at_level(logging.ERROR, "conche.aio"):
        async with server, Client() as client:
            response = await client.get(server.uri + "/fails")
            assert (response.code, response.payload) == (Code.INTERNAL_SERVER_ERROR, b"")
            assert (await client.get(server.uri + "/wrong")).code is Code.INTERNAL_SERVER_ERROR
            assert len(caplog.records) == 2
            # The fault of a client is no error of the server.
            assert (await client.post(server.uri + "/json", b"{")).code is Code.BAD_REQUEST
    assert len(caplog.records) == 2
    assert caplog.records[0].getMessage() == "the handler of GET /fails failed"
    assert "KeyError: 'secret'" in caplog.text


async def test_a_slow_handler_responds_separately_and_concurrently() -> None:
    server = new_server()
    both = asyncio.Event()
    waiting = 0

    @server.get("/slow")
    async def slow(request: Request) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both.set()
        await both.wait()
        return "done"

    async with server, Client() as one, Client() as other:
        responses = await asyncio.gather(one.get(server.uri + "/slow"), other.get(server.uri + "/slow"))
    assert [response.text() for response in responses] == ["done", "done"]


async def test_a_large_body_is_transferred_in_blocks_both_ways() -> None:
    server = new_server()
    body = bytes(range(256)) * 256

    @server.post("/echo")
    async def echo(request: Request) -> bytes:
        return request.payload

    async with server, Client() as client:
        assert (await client.post(server.uri + "/echo", body)).payload == body
        with pytest.raises(TooLarge, match="body_limit") as raised:
            await client.post(server.uri + "/echo", body + b"x")
        assert not raised.value.was_sent


async def test_an_observation_yields_changes_until_it_is_closed() -> None:
    server = new_server()
    states = {"a": 0, "b": 0}

    @server.get("/count/{name}", observable=True)
    async def read(request: Request, name: str) -> str:
        return str(states[name])

    path = "/count/{name}"
    async with server, Client() as client:
        async with client.observe(server.uri + "/count/a") as observation:
            seen = [(await anext(observation)).text()]
            assert server.observers(path) == 1
            for state in (1, 2):
                states["a"] = state
                server.notify(path, name="a")
                seen.append((await anext(observation)).text())
            server.notify(path, name="b")
            states["a"] = 3
            server.notify(path)
            seen.append((await anext(observation)).text())
        assert seen == ["0", "1", "2", "3"]
        assert server.observers(path) == 0
        with pytest.raises(StopAsyncIteration):
            await anext(observation)
        with pytest.raises(ValueError, match="observable=True"):
            server.notify("/count/a")
        with pytest.raises(ValueError, match="has the captures"):
            server.notify(path, room="a")


async def test_closing_an_observation_ends_a_waiting_reader() -> None:
    server = new_server()

    @server.get("/x", observable=True)
    async def read(request: Request) -> str:
        return "x"

    async with server, Client() as client:
        observation = client.observe(server.uri + "/x")
        assert (await anext(observation)).text() == "x"

        async def rest() -> list[Response]:
            return [response async for response in observation]

        reader = asyncio.create_task(rest())
        await asyncio.sleep(0)
        await observation.aclose()
        assert await reader == []


async def test_a_dropped_observation_deregisters() -> None:
    server = new_server()
    deregistered = asyncio.Event()

    @server.get("/x", observable=True)
    async def read(request: Request) -> str:
        if request.option(OptionNumber.OBSERVE) == b"\x01":
            deregistered.set()
        return "x"

    async with server, Client() as client:
        observation = client.observe(server.uri + "/x")
        await anext(observation)
        del observation
        gc.collect()
        await deregistered.wait()


async def test_a_cancelled_task_cancels_its_request_and_the_handler() -> None:
    server = new_server()
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @server.get("/hangs")
    async def hangs(request: Request) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @server.get("/works")
    async def works(request: Request) -> str:
        return "yes"

    async with Client() as client:
        async with server:
            task = asyncio.create_task(client.get(server.uri + "/hangs"))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The next request to the same destination need not wait for the cancelled one.
            assert (await client.get(server.uri + "/works")).text() == "yes"
            await server.close(within=0.1)
            await cancelled.wait()


async def test_a_timeout_bounds_a_request() -> None:
    server = new_server()

    @server.get("/hangs")
    async def hangs(request: Request) -> None:
        await asyncio.Event().wait()

    async with server, Client(timeout=0.2) as client:
        for arguments in ({}, {"timeout": 0.1}):
            with pytest.raises(Timeout) as raised:
                await client.get(server.uri + "/hangs", **arguments)
            assert raised.value.was_sent and isinstance(raised.value, TimeoutError)
        await server.close(within=0)


async def test_a_closed_port_is_unreachable() -> None:
    server = new_server()
    async with server:
        uri = server.uri
    async with Client() as client:
        with pytest.raises(Unreachable):
            await client.get(uri + "/x", timeout=5)


async def test_wrong_requests_and_settings_are_errors_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="did you mean|cocoa"):
        Client(cc="cocoaa")
    with pytest.raises(ConfigError, match="weak"):
        Client(cc="cocoa:weak=1")
    with pytest.raises(ConfigError, match="16, 32"):
        Client(block_size=100)
    with pytest.raises(ConfigError, match="IP address and a port"):
        Client(bind="localhost")
    async with Client(cc="cocoa:weak_k=1", cc_for={"127.0.0.0/8": "linux"}) as client:
        with pytest.raises(InvalidRequest):
            await client.get("http://127.0.0.1/")
        with pytest.raises(ValueError, match="number of seconds"):
            await client.get("coap://127.0.0.1/", timeout=-1)
    with pytest.raises(Closed):
        await client.get("coap://127.0.0.1/")


async def test_wrong_routes_are_errors_with_a_remedy() -> None:
    server = new_server()

    def plain(request: Request) -> str:
        return ""

    async def handler(request: Request, **captures: str) -> str:
        return ""

    with pytest.raises(TypeError, match="async def"):
        server.get("/x")(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="use GET"):
        server.route("READ", "/x")
    server.get("/a/{x")(handler)
    with pytest.raises(ConfigError, match="malformed"):
        await server.start()
    twice = new_server()
    twice.get("/x")(handler)
    twice.get("/x")(handler)
    with pytest.raises(ConfigError, match="two handlers"):
        await twice.start()
    with pytest.raises(Closed, match="async with server"):
        _ = twice.address
    with pytest.raises(ConfigError, match="secured_only"):
        await new_server(secured_only=True).start()


async def test_dtls_with_a_pre_shared_key_authenticates_both() -> None:
    server = new_server(psk={"lamp": b"sesame"})

    @server.get("/who")
    async def who(request: Request) -> str:
        return str(request.peer_identity)

    async with server:
        assert server.uri.startswith("coaps://")
        async with Client(psk=("lamp", b"sesame")) as client:
            assert (await client.get(server.uri + "/who")).text() == "lamp"


async def test_a_server_starts_again_after_it_was_closed() -> None:
    server = new_server()

    @server.get("/x")
    async def read(request: Request) -> str:
        return "x"

    for _ in range(2):
        async with server, Client() as client:
            assert (await client.get(server.uri + "/x")).text() == "x"


async def test_a_server_requests_from_its_own_socket() -> None:
    one, other = new_server(), new_server()

    @other.get("/port")
    async def port(request: Request) -> str:
        return str(request.peer[1])

    async with one, other:
        response = await one.client().get(other.uri + "/port")
        assert response.text() == str(one.address[1])


async def test_hundreds_of_requests_may_wait_for_one_destination() -> None:
    server = new_server()

    @server.get("/{number}")
    async def read(request: Request, number: str) -> str:
        return number

    async with server, Client() as client:
        responses = await asyncio.gather(*(client.get(f"{server.uri}/{number}") for number in range(300)))
    assert [int(response.text()) for response in responses] == list(range(300))


def test_each_event_loop_has_its_own_results() -> None:
    async def ask() -> str:
        server = new_server()

        @server.get("/x")
        async def read(request: Request) -> str:
            return "x"

        async with server, Client() as client:
            return (await client.get(server.uri + "/x")).text()

    assert [asyncio.run(ask()) for _ in range(3)] == ["x"] * 3


def test_any_byte_is_a_code() -> None:
    assert Code(69) is Code.CONTENT and str(Code.CONTENT) == "2.05"
    assert str(Code(0xFF)) == "7.31" and not Code(0xFF).is_success
    with pytest.raises(ValueError):
        Code(256)


SERVER = """
import asyncio, signal
from conche.aio import Server

# A background job of a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    server = Server("127.0.0.1:0")

    @server.get("/x", observable=True)
    async def read(request):
        return "x"

    async with server:
        print(server.uri, flush=True)
        await server.wait()

asyncio.run(main())
"""


async def test_ctrl_c_ends_a_server_and_its_observations() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    uri = (await process.stdout.readline()).decode().strip()
    async with Client() as client:
        observation = client.observe(uri + "/x")
        assert (await anext(observation)).text() == "x"
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert errors.decode().splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT


def test_a_program_may_end_without_closing_its_client() -> None:
    program = (
        "import asyncio\nfrom conche.aio import Client\n"
        "async def main():\n"
        "    global client\n"
        "    client = Client()\n"
        "    asyncio.ensure_future(client.get('coap://127.0.0.1:9/'))\n"
        "    await asyncio.sleep(0)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=LIMIT)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_gets_an_error_instead_of_silence() -> None:
    program = (
        "import asyncio, os\nfrom conche.aio import Client\n"
        "async def ask(client):\n"
        "    try:\n"
        "        await client.get('coap://127.0.0.1:1/', timeout=0.01)\n"
        "    except Exception as error:\n"
        "        return type(error).__name__\n"
        "client = Client()\n"
        "print(asyncio.run(ask(client)), flush=True)\n"
        "if os.fork() == 0:\n"
        "    print(asyncio.run(ask(client)), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT)
    first, second = ended.stdout.split()
    assert first in ("Unreachable", "Timeout") and second == "RuntimeError"


CERTIFICATES = Path(__file__).parents[3] / "tools/interop/credentials"


async def test_dtls_with_certificates_authenticates_both() -> None:
    ca, *rest = ((CERTIFICATES / name).read_bytes() for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key"))
    certificate, key, own, own_key = rest
    server = new_server(certificate=(certificate, key), client_roots=ca)

    @server.get("/who")
    async def who(request: Request) -> str:
        return str(request.peer_identity)

    async with server:
        async with Client(roots=ca, certificate=(own, own_key)) as client:
            assert "client" in (await client.get(server.uri + "/who")).text()
        async with Client(roots=ca) as client:
            with pytest.raises(SecurityError):
                await client.get(server.uri + "/who", timeout=10)
    with pytest.raises(ConfigError):
        Client(roots=b"no PEM")


async def test_a_wrong_pre_shared_key_is_a_security_error() -> None:
    async with new_server(psk={"lamp": b"sesame"}) as server, Client(psk=("lamp", b"wrong")) as client:
        with pytest.raises((SecurityError, Timeout)) as raised:
            await client.get(server.uri + "/x", timeout=10)
        assert not raised.value.was_sent


class Resets(asyncio.DatagramProtocol):
    """A peer that rejects each message with a Reset (RFC 7252 §4.2)."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(bytes([0x70, 0]) + data[2:4], addr)


async def test_a_reset_is_an_error() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Resets, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    async with Client() as client:
        with pytest.raises(Reset) as raised:
            await client.get(f"coap://127.0.0.1:{port}/x")
        assert raised.value.was_sent
    transport.close()


async def test_formats_are_negotiated_and_requests_may_be_non_confirmable() -> None:
    server = new_server()

    @server.fetch("/x", observable=True)
    async def read(request: Request) -> str:
        return f"{request.text()} {request.accept} {request.option(65000)!r}"

    async with server, Client() as client:
        uri = server.uri + "/x"
        response = await client.fetch(uri, "a", accept=0, options=[(65000, "é")], confirmable=False)
        assert response.text() == "a 0 b'\\xc3\\xa9'"
        assert (await client.fetch(uri, "a", accept=ContentFormat.JSON)).code is Code.NOT_ACCEPTABLE
        async with client.observe(uri, "b", method=Code.FETCH) as states:
            assert (await anext(states)).text().startswith("b ")
            assert server.observers("/x") == 1


async def test_a_cache_answers_while_a_response_is_fresh() -> None:
    server, calls = new_server(), 0

    @server.get("/x")
    async def read(request: Request) -> Response:
        nonlocal calls
        calls += 1
        return Response(Code.CONTENT, str(calls), max_age=60)

    async with server, Client(cache=True) as client:
        first, second = await client.get(server.uri + "/x"), await client.get(server.uri + "/x")
        assert (first.text(), first.age, second.text()) == ("1", None, "1")
        assert second.age is not None


async def test_a_response_of_another_server_can_be_returned() -> None:
    origin, proxy, client = new_server(), new_server(), Client()

    @origin.get("/large")
    async def large(request: Request) -> Response:
        return Response(Code.CONTENT, b"x" * 5000, content_format=60, etag=b"v1")

    @proxy.get("/large")
    async def forward(request: Request) -> Response:
        return await client.get(origin.uri + "/large")

    async with origin, proxy, client:
        response = await client.get(proxy.uri + "/large")
    assert (response.payload, response.content_format, response.etag) == (b"x" * 5000, 60, b"v1")


async def test_the_links_of_a_server_have_its_attributes() -> None:
    server = new_server()

    async def handler(request: Request, **captures: str) -> None:
        return None

    server.get("/t", observable=True, attributes={"rt": "temperature-c"})(handler)
    server.get("/hidden", hidden=True)(handler)
    server.get("/{room}/x")(handler)
    async with server, Client() as client:
        response = await client.get(server.uri + "/.well-known/core")
    assert response.text() == '</t>;rt="temperature-c";obs'
    assert response.content_format == ContentFormat.LINK_FORMAT
