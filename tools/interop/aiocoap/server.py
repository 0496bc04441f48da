"""aiocoap server of `cargo xtask interop`; arguments and resources: ../README.md."""

import asyncio
import socket
import sys

import aiocoap
from aiocoap import CHANGED, CON, CONTENT, CREATED, DELETED, NON, NOT_ACCEPTABLE, NOT_FOUND, PRECONDITION_FAILED, VALID
from aiocoap import Message, resource
from aiocoap.credentials import CredentialsMap

import credentials

LARGE = ("0123456789abcdef" * 125).encode()


class Read(resource.Resource):
    """A readable resource. aiocoap sends a separate response after EMPTY_ACK_DELAY."""

    def __init__(self, payload, content_format=0, delay=0, **attributes):
        super().__init__()
        self.payload, self.content_format, self.delay, self.attributes = payload, content_format, delay, attributes

    def get_link_description(self):
        return {**super().get_link_description(), **self.attributes}

    async def render_get(self, request):
        await asyncio.sleep(self.delay)
        return Message(code=CONTENT, payload=self.payload, content_format=self.content_format)


class Document(resource.ObservableResource):
    """A document with its version as ETag; if it ticks, it changes each second."""

    def __init__(self, payload, ticks=None, reliability=NON):
        super().__init__()
        self.payload, self.content_format, self.version = payload, 0, 1
        self.ticks, self.reliability = ticks, reliability
        if ticks:
            asyncio.get_running_loop().create_task(self.tick())

    async def tick(self):
        count = 0
        while True:
            await asyncio.sleep(1)
            count += 1
            if self.payload is not None:
                self.payload = self.ticks(count)
                self.changed()

    def changed(self):
        self.version += 1
        self.updated_state()

    async def render_get(self, request):
        # A notification is sent as the response says.
        mtype = self.reliability if request.opt.observe == 0 else None
        if self.payload is None:
            return Message(code=NOT_FOUND, mtype=mtype)
        etag = bytes([self.version % 256])
        if etag in request.opt.etags:
            return Message(code=VALID, etag=etag)
        return Message(code=CONTENT, payload=self.payload, content_format=self.content_format, etag=etag, mtype=mtype)

    async def render_put(self, request):
        conditions = request.opt.if_match
        if conditions and bytes([self.version % 256]) not in conditions or request.opt.if_none_match and self.payload is not None:
            return Message(code=PRECONDITION_FAILED)
        code = CREATED if self.payload is None else CHANGED
        former, self.content_format = self.content_format, request.opt.content_format or 0
        self.payload = request.payload
        self.version += 1
        # Notifications keep the first Content-Format (RFC 7641 section 4.2).
        self.updated_state(Message(code=NOT_ACCEPTABLE, mtype=self.reliability) if former != self.content_format else None)
        return Message(code=code)

    async def render_delete(self, request):
        self.payload = None
        self.changed()
        return Message(code=DELETED)

    async def render_post(self, request):
        return Message(code=CREATED, location_path=("location1", "location2", "location3"))


class LocationQuery(resource.Resource):
    async def render_post(self, request):
        return Message(code=CREATED, location_query=("first=1", "second=2"))


class Query(resource.Resource):
    async def render_get(self, request):
        return Message(code=CONTENT, payload="&".join(request.opt.uri_query).encode(), content_format=0)


class MultiFormat(resource.Resource):
    async def render_get(self, request):
        accept = int(request.opt.accept or 0)
        if accept not in (0, 41):
            return Message(code=NOT_ACCEPTABLE)
        payload = b"<text>hello</text>" if accept else b"hello"
        return Message(code=CONTENT, payload=payload, content_format=accept)


class LargePost(resource.Resource):
    async def render_post(self, request):
        return Message(code=CHANGED, payload=LARGE, content_format=0)


def site():
    root = resource.Site()
    add = lambda path, item: root.add_resource(path.split("/"), item)
    root.add_resource([".well-known", "core"], resource.WKCResource(root.get_resources_as_linkheader))
    add("test", Document(b"hello"))
    add("separate", Read(b"separate", delay=1.5))
    add("seg1/seg2/seg3", Read(b"seg3"))
    add("query", Query())
    add("multi-format", MultiFormat())
    add("location-query", LocationQuery())
    add("validate", Document(b"valid"))
    for path in ("create1", "create2", "create3"):
        add(path, Document(None))
    add("large", Read(LARGE))
    add("large-update", Document(LARGE))
    add("large-create", Document(b""))
    add("large-post", LargePost())
    add("link1", Read(b"link1", rt="Type1", **{"if": "If1"}, sz="5"))
    add("link2", Read(b"link2", rt="Type2", **{"if": "If2"}))
    add("link3", Read(b"link3", rt="Type1 Type2", **{"if": "foo"}))
    add("path", Read(b"</path/sub1>,</path/sub2>,</path/sub3>", content_format=40, ct="40"))
    for path in ("path/sub1", "path/sub2", "path/sub3"):
        add(path, Read(path[5:].encode()))
    tick = lambda count: b"tick %d" % count
    add("obs", Document(b"tick", ticks=tick, reliability=CON))
    add("obs-non", Document(b"tick", ticks=tick))
    add("obs-large", Document(LARGE, ticks=lambda count: bytes([97 + count % 26]) + LARGE[1:]))
    return root


async def main():
    host, port, *protection = sys.argv[1:]
    port, family = int(port), socket.AF_INET6 if ":" in host else socket.AF_INET
    if port == 0:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
    mode, directory = protection or ("plain", None)
    served, clients = site(), CredentialsMap()
    if mode != "plain":
        clients.load_from_dict({":client": credentials.item(mode, directory, "server")})
    if mode == "oscore":
        # Present only if aiocoap was installed with OSCORE.
        from aiocoap.oscore_sitewrapper import OscoreSiteWrapper

        served = OscoreSiteWrapper(served, clients)
    transports = ["tinydtls_server" if mode == "psk" else "udp6"]
    # For DTLS, aiocoap adds one to the port.
    bind = (host, port - 1 if mode == "psk" else port)
    await aiocoap.Context.create_server_context(
        served, bind=bind, transports=transports, server_credentials=clients
    )
    print(f"listening [{host}]:{port}" if family == socket.AF_INET6 else f"listening {host}:{port}", flush=True)
    await asyncio.get_running_loop().create_future()


asyncio.run(main())
