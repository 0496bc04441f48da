"""The conformance suite on controllers written in Python."""

from __future__ import annotations

import pytest
from conche import conformance
from conche.controller import Acknowledged, Controller, Flight, Peer, Sent


class Smoothed(Controller):
    """RTO of RFC 6298 §2, from 1 to 60 s."""

    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        rtt = event.strong_rtt
        if rtt is None:
            return
        if peer.srtt is None or peer.rttvar is None:
            peer.srtt, peer.rttvar = rtt, rtt / 2
        else:
            peer.rttvar += (abs(peer.srtt - rtt) - peer.rttvar) / 4
            peer.srtt += (rtt - peer.srtt) / 8
        peer.rto = min(max(peer.srtt + 4 * peer.rttvar, 1.0), 60.0)


class Impatient(Smoothed):
    def sent(self, peer: Peer, flight: Flight, event: Sent) -> float:
        return 0.1


class Raising(Controller):
    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        raise LookupError("no such peer")


def test_a_conforming_controller_passes() -> None:
    conformance.check(Smoothed)


def test_a_violation_names_check_and_result() -> None:
    with pytest.raises(conformance.NonConforming, match="Impatient violates") as raised:
        conformance.check(Impatient)
    found = {violation.check: violation.problem for violation in raised.value.violations}
    assert "slows_down_under_total_loss" in found and "dithers" in found, found


def test_an_exception_is_a_violation_with_its_traceback() -> None:
    found = {violation.check: violation.problem for violation in conformance.violations(Raising())}
    assert "Raising.acknowledged raised:" in found["rto_follows_rtt"]
    assert "LookupError: no such peer" in found["rto_follows_rtt"]
