"""DTLS and OSCORE with conche.aio: `python examples/secured.py`"""

import asyncio

from conche.aio import Client, OscoreKeys, Request, Server


async def who(request: Request) -> str:
    return f"hello, {request.peer_identity}"


async def main() -> list[str]:
    # ANCHOR: dtls
    server = Server("127.0.0.1:0", psk={"lamp-7": b"sesame"})
    server.get("/who")(who)
    async with server, Client(psk=("lamp-7", b"sesame")) as client:
        over_dtls = await client.get(server.uri + "/who")  # coaps://127.0.0.1:…
    # ANCHOR_END: dtls

    # ANCHOR: oscore
    secret = b"16 random bytes."
    theirs = OscoreKeys(secret, sender_id=b"s", recipient_id=b"c")
    server = Server("127.0.0.1:0", oscore=[theirs], secured_only=True)
    server.get("/who")(who)
    ours = OscoreKeys(secret, sender_id=b"c", recipient_id=b"s")
    async with server, Client(oscore=ours) as client:
        over_oscore = await client.get(server.uri + "/who")
    # ANCHOR_END: oscore
    return [over_dtls.text(), over_oscore.text()]


if __name__ == "__main__":
    print(asyncio.run(main()))
