"""conche.aio's server of `cargo xtask bench-peers`; arguments and resources: ../README.md."""

import asyncio
import sys

from conche.aio import Server

server = Server(f"127.0.0.1:{sys.argv[1]}")
TEST, BIG = b"x" * 60, b"x" * 65536


@server.get("/test")
async def test(request):
    return TEST


@server.get("/big")
async def big(request):
    return BIG


asyncio.run(server.serve_forever())
