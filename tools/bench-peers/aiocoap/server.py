"""aiocoap server of `cargo xtask bench-peers`; arguments and resources: ../README.md."""

import asyncio
import os
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


def protected(site, directory):
    # Present only if aiocoap was installed with OSCORE.
    from aiocoap.credentials import CredentialsMap
    from aiocoap.oscore_sitewrapper import OscoreSiteWrapper

    clients = CredentialsMap()
    clients.load_from_dict({f":{name}": {"oscore": {"basedir": f"{directory}/{name}"}} for name in os.listdir(directory)})
    return OscoreSiteWrapper(site, clients), clients


async def main(port, interval, protection=None, directory=None):
    site, tick = resource.Site(), Tick()
    site.add_resource(["test"], Bytes(60))
    site.add_resource(["big"], Bytes(65536))
    site.add_resource(["tick"], tick)
    clients = None
    if protection == "oscore":
        site, clients = protected(site, directory)
    bind = ("127.0.0.1", int(port))
    await Context.create_server_context(site, bind=bind, transports=["udp6"], server_credentials=clients)
    while int(interval):
        await asyncio.sleep(int(interval) / 1000)
        tick.updated_state()
    await asyncio.get_running_loop().create_future()


asyncio.run(main(*sys.argv[1:]))
