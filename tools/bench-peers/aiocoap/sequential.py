"""aiocoap client of `cargo xtask implementations`; arguments and output: ../../implementations/README.md."""

import asyncio
import json
import os
import sys
import time

from aiocoap import GET, Context, Message, error


async def main(host, port, exchanges, interval, start):
    context = await Context.create_client_context(transports=["udp6"])
    await asyncio.sleep(max(0, float(start) - time.time()))
    for _ in range(int(exchanges)):
        began = time.time()
        try:
            await context.request(Message(code=GET, uri=f"coap://{host}:{port}/")).response
            answered = True
        except error.Error as failure:
            print(repr(failure), file=sys.stderr)
            answered = False
        print(json.dumps({"start": began, "end": time.time(), "answered": answered}), flush=True)
        await asyncio.sleep(float(interval))
    # As clients of other implementations, without a shutdown.
    os._exit(0)


asyncio.run(main(*sys.argv[1:6]))
