"""Independent model of ANRW'18's bottleneck in tests/validation/bottleneck.rs.

    python3 bottleneck.py

400 clients with RFC 7252's timers and an unlimited queue; needs only Python. All requests leave at
once over 60 kbit/s and 200 ms, take U(10, 20) ms to the server, U(2, 4) ms there and U(10, 20) ms
back, and wait for 30 kbit/s and 400 ms. Every transmission is answered; a client sends its next
request when the first response to the previous one arrives. Nothing is lost, so every
retransmission is spurious.
"""

import heapq
import random
from itertools import count
from statistics import mean, stdev

CLIENTS, EXCHANGES, RUNS = 400, 50, 5
REQUEST, RESPONSE = 32 * 8 / 60_000, 94 * 8 / 30_000
CAP = 60.0


def copies(seed: int) -> tuple[int, list[int]]:
    """Returns the transmissions of a run, and a histogram of retransmissions per exchange."""
    rng = random.Random(seed)
    order = count()
    events = []
    uplink_free = downlink_free = 0.0
    sent = 0
    exchange = [0] * CLIENTS
    retransmissions = [0] * CLIENTS
    timer = [0.0] * CLIENTS
    histogram = [0, 0, 0, 0, 0]

    def schedule(at, *event):
        heapq.heappush(events, (at, next(order), *event))

    def transmit(now, client):
        nonlocal uplink_free, sent
        sent += 1
        uplink_free = max(now, uplink_free) + REQUEST
        there = uplink_free + 0.200 + rng.uniform(0.010, 0.020) + rng.uniform(0.002, 0.004)
        schedule(there + rng.uniform(0.010, 0.020), "queue", client, exchange[client])
        schedule(now + timer[client], "timer", client, exchange[client], retransmissions[client])

    def start(now, client):
        retransmissions[client] = 0
        timer[client] = rng.uniform(2, 3)
        transmit(now, client)

    for client in range(CLIENTS):
        start(0.0, client)
    while events:
        now, _, kind, client, number, *rest = heapq.heappop(events)
        if kind == "queue":
            downlink_free = max(now, downlink_free) + RESPONSE
            schedule(downlink_free + 0.400, "answer", client, number)
        elif number != exchange[client]:
            continue  # the exchange has ended
        elif kind == "answer":
            histogram[min(retransmissions[client], 4)] += 1
            exchange[client] += 1
            if exchange[client] < EXCHANGES:
                start(now, client)
        elif rest[0] == retransmissions[client]:
            retransmissions[client] += 1
            timer[client] = min(2 * timer[client], CAP)
            transmit(now, client)
    return sent, histogram


runs = [copies(seed) for seed in range(1, RUNS + 1)]
sent = [number for number, _ in runs]
print(f"copies of a run: {mean(sent):.0f} ± {stdev(sent):.0f} (standard deviation of {RUNS} runs)")
print("exchanges with 0, 1, 2, 3, 4 or more retransmissions:", *(sum(h[i] for _, h in runs) / RUNS for i in range(5)))
