"""conche.aio with aiocoap, in both roles."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiocoap
import aiocoap.error
import pytest
from aiocoap import resource
from aiocoap.credentials import CredentialsMap
from aiocoap.oscore_sitewrapper import OscoreSiteWrapper
from conche.aio import Client, Code, OscoreKeys, Request, Response, Server, Timeout

BODY = bytes(range(256)) * 256


@asynccontextmanager
async def aiocoap_client() -> AsyncIterator[aiocoap.Context]:
    context = await aiocoap.Context.create_client_context(transports=["oscore", "udp6"])
    try:
        yield context
    finally:
        await context.shutdown()


class Store(resource.ObservableResource):
    """A payload that PUT replaces."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.payload = payload

    async def render_get(self, request: Any) -> Any:
        return aiocoap.Message(payload=self.payload)

    async def render_put(self, request: Any) -> Any:
        self.payload = request.payload
        self.updated_state()
        return aiocoap.Message(code=aiocoap.CHANGED)


class Hangs(resource.Resource):
    """A resource that never responds."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def render_get(self, request: Any) -> Any:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def free_port() -> int:
    """aiocoap does not say to which port it is bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def aiocoap_server(site: Any, credentials: CredentialsMap | None = None) -> AsyncIterator[str]:
    port = free_port()
    context = await aiocoap.Context.create_server_context(
        site, bind=("127.0.0.1", port), transports=["udp6"], server_credentials=credentials
    )
    try:
        yield f"coap://127.0.0.1:{port}"
    finally:
        await context.shutdown()


def site(**resources: Any) -> resource.Site:
    root = resource.Site()
    for path, item in resources.items():
        root.add_resource([path], item)
    return root


def new_server(**settings: Any) -> Server:
    """Returns a server with a payload at /store, which PUT replaces."""
    server = Server("127.0.0.1:0", **settings)
    stored = b"hello"

    @server.get("/store", observable=True)
    async def read(request: Request) -> Response:
        return Response(Code.CONTENT, stored, content_format=42)

    @server.put("/store")
    async def write(request: Request) -> None:
        nonlocal stored
        stored = request.payload
        server.notify("/store")

    return server


async def test_our_client_gets_and_puts_at_aiocoap() -> None:
    async with aiocoap_server(site(store=Store(b"hello"))) as uri, Client() as client:
        response = await client.get(uri + "/store")
        assert (response.code, response.payload) == (Code.CONTENT, b"hello")
        assert (await client.put(uri + "/store", "new")).code is Code.CHANGED
        assert (await client.get(uri + "/store")).text() == "new"
        assert (await client.get(uri + "/nothing")).code is Code.NOT_FOUND


async def test_our_client_transfers_64_kib_in_blocks_with_aiocoap() -> None:
    async with aiocoap_server(site(store=Store(b""))) as uri, Client() as client:
        assert (await client.put(uri + "/store", BODY)).code is Code.CHANGED
        assert (await client.get(uri + "/store")).payload == BODY


async def test_our_client_observes_aiocoap() -> None:
    store = Store(b"0")
    async with aiocoap_server(site(store=store)) as uri, Client() as client:
        async with client.observe(uri + "/store") as observation:
            seen = [(await anext(observation)).text()]
            for state in ("1", "2"):
                await client.put(uri + "/store", state)
                seen.append((await anext(observation)).text())
        assert seen == ["0", "1", "2"]
        # aiocoap forgets the observation when it has responded to Observe 1.
        assert not store._observations


async def test_a_request_to_aiocoap_times_out_and_is_cancelled() -> None:
    hangs = Hangs()
    async with aiocoap_server(site(hangs=hangs, store=Store(b"x"))) as uri, Client() as client:
        with pytest.raises(Timeout):
            await client.get(uri + "/hangs", timeout=0.2)
        hangs.begun.clear()
        task = asyncio.create_task(client.get(uri + "/hangs"))
        await hangs.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.get(uri + "/store")).payload == b"x"


async def test_aiocoap_gets_and_puts_at_our_server() -> None:
    async with new_server() as server, aiocoap_client() as context:
        uri = server.uri + "/store"
        response = await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response
        assert (response.code, response.payload) == (aiocoap.CONTENT, b"hello")
        response = await context.request(aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=b"new")).response
        assert response.code == aiocoap.CHANGED
        response = await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response
        assert (response.payload, int(response.opt.content_format)) == (b"new", 42)
        missing = aiocoap.Message(code=aiocoap.GET, uri=server.uri + "/nothing")
        assert (await context.request(missing).response).code == aiocoap.NOT_FOUND


async def test_aiocoap_transfers_64_kib_in_blocks_with_our_server() -> None:
    async with new_server() as server, aiocoap_client() as context:
        uri = server.uri + "/store"
        response = await context.request(aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=BODY)).response
        assert response.code == aiocoap.CHANGED
        response = await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response
        assert response.payload == BODY


async def test_aiocoap_observes_our_server() -> None:
    async with new_server() as server, aiocoap_client() as context, Client() as client:
        uri = server.uri + "/store"
        request = context.request(aiocoap.Message(code=aiocoap.GET, uri=uri, observe=0))
        seen = [(await request.response).payload]
        notifications = aiter(request.observation)
        for state in (b"1", b"2"):
            await client.put(uri, state)
            seen.append((await anext(notifications)).payload)
        assert seen == [b"hello", b"1", b"2"]
        assert server.observers("/store") == 1
        request.observation.cancel()


def oscore_directory(path: Path, sender: str, recipient: str) -> Path:
    """Writes credentials in aiocoap's format."""
    path.mkdir(mode=0o700)
    (path / "settings.json").write_text(
        json.dumps({"sender-id_ascii": sender, "recipient-id_ascii": recipient, "algorithm": "AES-CCM-16-64-128"})
    )
    secret = path / "secret.json"
    secret.write_text(json.dumps({"secret_ascii": "sixteen bytes ok"}))
    secret.chmod(0o600)
    return path


async def test_our_client_and_aiocoap_protect_requests_with_oscore(tmp_path: Path) -> None:
    theirs = oscore_directory(tmp_path / "server", "s", "c")
    credentials = CredentialsMap()
    credentials.load_from_dict({":client": {"oscore": {"basedir": f"{theirs}/"}}})
    protected = OscoreSiteWrapper(site(store=Store(b"hello")), credentials)
    keys = OscoreKeys.open(oscore_directory(tmp_path / "client", "c", "s"))
    async with aiocoap_server(protected, credentials) as uri, Client(oscore=keys) as client:
        response = await client.get(uri + "/store")
        assert (response.payload, response.peer_identity) == (b"hello", "73")
        assert (await client.put(uri + "/store", BODY[:3000])).code is Code.CHANGED
        assert (await client.get(uri + "/store")).payload == BODY[:3000]


async def test_aiocoap_and_our_server_protect_requests_with_oscore(tmp_path: Path) -> None:
    keys = OscoreKeys(b"sixteen bytes ok", sender_id=b"s", recipient_id=b"c")
    theirs = oscore_directory(tmp_path / "client", "c", "s")
    async with new_server(oscore=[keys], secured_only=True) as server, aiocoap_client() as context:
        uri = server.uri + "/store"
        async with Client() as client:
            assert (await client.get(uri)).code is Code.UNAUTHORIZED
        context.client_credentials.load_from_dict({"coap://*": {"oscore": {"basedir": f"{theirs}/"}}})
        for payload in (b"hello", b"new"):
            response = await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response
            assert response.payload == payload
            await context.request(aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=b"new")).response
