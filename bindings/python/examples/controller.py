"""A controller in Python beside one in Rust, and in the conformance suite."""

# ANCHOR: rule
import conche
import polars
from conche import conformance
from conche.controller import Abandoned, Acknowledged, Controller, Features, Flight, Peer


class LastRtt(Controller):
    """The last round-trip time as the RTO (ComMag'16)."""

    features = Features(weak_rtt=255)

    def __init__(self, most: float = 60.0) -> None:
        self.most = most

    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        rtt = event.rtt
        if rtt is not None:
            peer.rto = self.bounded(rtt)

    def abandoned(self, peer: Peer, flight: Flight, event: Abandoned) -> None:
        if event.reason == "gave-up" and flight.timeout is not None:
            peer.rto = self.bounded(flight.timeout)

    def bounded(self, rto: float) -> float:
        """Returns whole milliseconds."""
        return max(int(min(rto, self.most) * 1000 + 0.5), 1) / 1000
# ANCHOR_END: rule


if __name__ == "__main__":
    # ANCHOR: run
    experiment = conche.Experiment("lossy-lan").quick()
    results = experiment.controllers("default", "basic", LastRtt, LastRtt(most=10)).run(progress=True)
    values = polars.DataFrame(results.values).filter(polars.col("column") == "due_p95_s")
    print(values.pivot("scheme", index="axis.loss_percent", values="measured"))
    # ANCHOR_END: run
    # ANCHOR: check
    for violation in conformance.violations(LastRtt):
        print(violation)
    # ANCHOR_END: check
