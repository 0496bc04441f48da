"""The server that `cargo xtask bench-peers` has aiocoap be; its arguments and resources are in ../README.md."""

import asyncio
import sys

from aiocoap import Context, Message, Reliable, resource


class Bytes(resource.Resource):
    def __init__(self, length):
        super().__init__()
        self.payload = b"x" * length

    async def render_get(self, request):
        return Message(payload=self.payload)


class Tick(resource.ObservableResource):
    async def render_get(self, request):
        return Message(payload=b"x" * 60, transport_tuning=Reliable)


async def main(port, interval):
    site, tick = resource.Site(), Tick()
    site.add_resource(["test"], Bytes(60))
    site.add_resource(["big"], Bytes(65536))
    site.add_resource(["tick"], tick)
    await Context.create_server_context(site, bind=("127.0.0.1", port), transports=["udp6"])
    while interval:
        await asyncio.sleep(interval / 1000)
        tick.updated_state()
    await asyncio.get_running_loop().create_future()


asyncio.run(main(*map(int, sys.argv[1:3])))
