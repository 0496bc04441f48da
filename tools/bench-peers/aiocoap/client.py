"""aiocoap client of `cargo xtask bench-peers`; arguments and output: ../README.md."""

import asyncio
import os
import sys

from aiocoap import GET, Context, Message, error

answered = 0


async def ask(context, port):
    global answered
    while True:
        try:
            response = await context.request(Message(code=GET, uri=f"coap://127.0.0.1:{port}/test")).response
        except error.Error as failure:
            print(failure, file=sys.stderr)
            continue
        answered += len(response.payload) == 60


async def main(port, destinations, warm_up, seconds):
    context = await Context.create_client_context(transports=["udp6"])
    asking = [asyncio.create_task(ask(context, int(port + at))) for at in range(int(destinations))]
    await asyncio.sleep(warm_up)
    before = answered
    await asyncio.sleep(seconds)
    print("answered", answered - before, flush=True)
    # aiocoap would log each response to an abandoned request.
    os._exit(0)


asyncio.run(main(*map(float, sys.argv[1:5])))
