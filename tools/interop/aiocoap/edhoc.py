"""A server and a client of aiocoap that agree on OSCORE keys (EDHOC, RFC 9528), for crates/conche/tests/library/edhoc_aiocoap.rs.

    edhoc.py server HOST PORT PRIVATE_KEY CREDENTIAL PEER
    edhoc.py client URI PRIVATE_KEY CREDENTIAL PEER (combined|separate)

Keys and credentials are hexadecimal digits. The server says "ready"; the client prints the payload of the response.
"""

import asyncio
import sys

import aiocoap
import aiocoap.resource
import cbor2
from aiocoap.credentials import CredentialsMap
from aiocoap.oscore_sitewrapper import OscoreSiteWrapper


def own(key, credential):
    return {
        "suite": 2,
        "method": 3,
        "own_cred_style": "by-key-id",
        "own_cred": {14: cbor2.loads(bytes.fromhex(credential))},
        "private_key": {1: 2, -1: 1, -4: bytes.fromhex(key)},
    }


def peer(credential):
    return {"peer_cred": {14: cbor2.loads(bytes.fromhex(credential))}}


class Who(aiocoap.resource.Resource):
    async def render_get(self, request):
        claims = getattr(request.remote, "authenticated_claims", [])
        return aiocoap.Message(payload=",".join(map(str, claims)).encode())


async def server(host, port, key, credential, other):
    site = aiocoap.resource.Site()
    site.add_resource(["who"], Who())
    credentials = CredentialsMap()
    credentials.load_from_dict(
        {
            f"coap://{host}:{port}/*": {"edhoc-oscore": own(key, credential)},
            ":lamp": {"edhoc-oscore": {"suite": 2, "method": 3, **peer(other)}},
        }
    )
    context = await aiocoap.Context.create_server_context(
        OscoreSiteWrapper(site, credentials), bind=(host, int(port)), server_credentials=credentials
    )
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


async def client(uri, key, credential, other, way):
    context = await aiocoap.Context.create_client_context()
    origin = uri.rsplit("/", 1)[0]
    edhoc = {**own(key, credential), **peer(other), "use_combined_edhoc": way == "combined"}
    context.client_credentials.load_from_dict({f"{origin}/*": {"edhoc-oscore": edhoc}})
    for _ in range(3):
        response = await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response_raising
        print(response.payload.decode(), flush=True)
    await context.shutdown()


asyncio.run({"server": server, "client": client}[sys.argv[1]](*sys.argv[2:]))
