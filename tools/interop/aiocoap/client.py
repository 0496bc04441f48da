"""aiocoap client of `cargo xtask interop`; arguments, input and output: ../README.md."""

import asyncio
import os
import sys

import aiocoap
from aiocoap import CON, NON, Message
from aiocoap.numbers.codes import Code
from aiocoap.numbers.optionnumbers import OptionNumber

import credentials

TRANSPORTS = {"plain": ["udp6"], "psk": ["tinydtls"], "oscore": ["oscore", "udp6"]}

# The size exponent of BLOCK_SIZE, if there is one.
BLOCK = int(os.environ["BLOCK_SIZE"]).bit_length() - 5 if "BLOCK_SIZE" in os.environ else None


class Client:
    def __init__(self, context):
        self.context = context
        self.token = None
        # aiocoap chooses tokens itself, by this method.
        for interface in context.request_interfaces:
            if hasattr(interface, "next_token"):
                interface.next_token = self.chosen_or(interface.next_token)

    def chosen_or(self, next_token):
        def choose():
            self.last, self.token = next_token() if self.token is None else self.token, None
            return self.last

        return choose

    def say(self, what, message):
        code = message.code
        print(f"{what} {code // 32}.{code % 32:02} {message.payload.hex()}", flush=True)

    def message(self, reliability, method, uri, words):
        message = Message(code=getattr(Code, method), uri=uri, mtype=reliability)
        for word in words:
            name, _, value = word.partition("=")
            if name == "payload":
                message.payload = bytes.fromhex(value)
            elif name == "option":
                number, _, value = value.partition(":")
                option = OptionNumber(int(number)).create_option()
                option.decode(bytes.fromhex(value))
                message.opt.add_option(option)
            elif name == "token":
                self.token = bytes.fromhex(value)
        if BLOCK:
            message.opt.block1 = (0, False, BLOCK) if len(message.payload) > 16 << BLOCK else None
            message.opt.block2 = (0, False, BLOCK) if method == "GET" else None
        return message

    async def request(self, message):
        handle = self.context.request(message)
        self.say("response", await handle.response)
        if message.opt.observe == 0 and handle.observation is not None:
            self.observation, self.observed = handle.observation, (message.get_request_uri(), self.last)
            self.following = asyncio.ensure_future(self.follow(handle.observation))

    async def follow(self, observation):
        try:
            async for notification in observation:
                self.say("notified", notification)
        except aiocoap.error.Error:
            pass

    async def handle(self, line):
        verb, *words = line.split()
        if verb == "ping":
            raise ValueError("aiocoap has no ping")
        if verb != "stop":
            await self.request(self.message(CON if verb == "CON" else NON, words[0], words[1], words[2:]))
        elif words[0] == "reset":
            # A notification of a forgotten observation is answered with a Reset.
            self.observation.cancel()
        else:
            uri, self.token = self.observed
            await self.request(self.message(CON, "GET", uri, ["option=6:01"]))


async def main():
    mode, directory = sys.argv[1:] or ("plain", None)
    context = await aiocoap.Context.create_client_context(transports=TRANSPORTS[mode])
    if mode != "plain":
        context.client_credentials.load_from_dict({"coap*": credentials.item(mode, directory, "client")})
    client = Client(context)
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            await client.handle(line.decode())
        except Exception as error:
            print("failed", type(error).__name__, error, flush=True)


asyncio.run(main())
