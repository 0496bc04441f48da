"""A server and a client of conche.aio: `python examples/thermometer.py`"""

# ANCHOR: server
import asyncio

from conche.aio import Client, Code, Rejection, Request, Server

server = Server("127.0.0.1:0", cc="cocoa")
celsius = {"kitchen": 20.5, "cellar": 11.0}


@server.get("/temperature/{room}", observable=True)
async def read(request: Request, room: str) -> str:
    if room not in celsius:
        raise Rejection(Code.NOT_FOUND, f"no thermometer is in the {room}")
    return f"{celsius[room]:.1f}"


@server.put("/temperature/{room}")
async def write(request: Request, room: str) -> None:
    celsius[room] = float(request.text())
    server.notify("/temperature/{room}", room=room)


# ANCHOR_END: server


async def ask(uri: str) -> None:
    # ANCHOR: client
    async with Client(timeout=10) as client:
        response = await client.get(uri + "/temperature/kitchen")
        print(response.code, response.text(), response.acknowledged_after)

        rooms = ["kitchen", "cellar"]
        requests = [client.get(f"{uri}/temperature/{room}") for room in rooms]
        for room, response in zip(rooms, await asyncio.gather(*requests), strict=True):
            print(room, response.raise_for_status().text())
    # ANCHOR_END: client


async def observe(uri: str) -> list[str]:
    seen: list[str] = []
    async with Client() as client:
        # ANCHOR: observe
        async with client.observe(uri + "/temperature/kitchen") as states:
            async for response in states:
                seen.append(response.raise_for_status().text())
                if len(seen) == 2:
                    break
                await client.put(uri + "/temperature/kitchen", "21.0")
        # ANCHOR_END: observe
    return seen


async def fail(uri: str) -> None:
    # ANCHOR: errors
    from conche.aio import ResponseError, Timeout

    async with Client(timeout=10) as client:
        try:
            response = await client.get(uri + "/temperature/attic")
            print(response.raise_for_status().text())
        except ResponseError as error:
            # 127.0.0.1:…: the server answers 4.04 Not Found: no thermometer is in the attic
            print(error)
        except Timeout as error:
            print(error, error.was_sent)
    # ANCHOR_END: errors


async def main() -> list[str]:
    async with server:
        await ask(server.uri)
        await fail(server.uri)
        return await observe(server.uri)


if __name__ == "__main__":
    print(asyncio.run(main()))
