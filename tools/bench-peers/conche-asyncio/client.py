"""conche.aio's client of `cargo xtask bench-peers`; arguments and output: ../README.md."""

import asyncio
import os
import sys

from conche.aio import Client, Error

answered = 0


async def ask(client, uri):
    global answered
    while True:
        try:
            response = await client.get(uri)
        except Error as failure:
            print(failure, file=sys.stderr)
            continue
        answered += len(response.payload) == 60


async def main(port, destinations, warm_up, seconds):
    client = Client()
    uris = [f"coap://127.0.0.1:{int(port + at)}/test" for at in range(int(destinations))]
    asking = [asyncio.create_task(ask(client, uri)) for uri in uris]
    await asyncio.sleep(warm_up)
    before = answered
    await asyncio.sleep(seconds)
    print("answered", answered - before, flush=True)
    # Tasks that ended early would have failed.
    os._exit(any(task.done() for task in asking))


asyncio.run(main(*map(float, sys.argv[1:5])))
