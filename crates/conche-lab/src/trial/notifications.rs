//! An observer for Confirmable notifications' outcomes, which the endpoint does not report.

use std::collections::{BTreeMap, BTreeSet};

use conche_netsim::packet::Packet;
use conche_netsim::trace::Observer;
use conche_netsim::{Instant, NodeId};

use crate::workload::Exchange;

#[derive(Debug, Default)]
pub(super) struct Notifications {
    servers: BTreeSet<NodeId>,
    /// Client, first transmission and count, by server and exchange.
    sent: BTreeMap<(NodeId, u64), (NodeId, Instant, u16)>,
    acknowledged: Vec<(NodeId, NodeId, Exchange)>,
}

/// RFC 7252 §3.
const CONFIRMABLE: u8 = 0;
const ACKNOWLEDGEMENT: u8 = 2;

impl Notifications {
    pub(super) fn of(servers: BTreeSet<NodeId>) -> Self {
        Self { servers, ..Self::default() }
    }

    /// Returns notifications by time, with server and client, without flow number.
    pub(super) fn into_acknowledged(self) -> Vec<(NodeId, NodeId, Exchange)> {
        self.acknowledged
    }
}

impl Observer for Notifications {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        if let Some(copy) =
            packet.meta.transmission.filter(|copy| is_of(packet, CONFIRMABLE) && self.servers.contains(&copy.node))
        {
            self.sent.entry((copy.node, copy.exchange)).or_insert((packet.meta.to, now, 0)).2 += 1;
        }
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        let Some(copy) = packet.meta.cause.and_then(|cause| cause.transmission) else { return };
        // An unexpected notification gets a Reset.
        if copy.node != packet.meta.to || !is_of(packet, ACKNOWLEDGEMENT) {
            return;
        }
        let Some((to, began, copies)) = self.sent.remove(&(copy.node, copy.exchange)) else { return };
        let exchange = Exchange {
            flow: 0,
            number: copy.exchange,
            began,
            ended: now,
            transmissions: copies,
            unnecessary: copies.saturating_sub(u16::from(copy.attempt) + 1),
            answered: true,
            round_trip: Some(now - began),
        };
        self.acknowledged.push((copy.node, to, exchange));
    }
}

fn is_of(packet: &Packet, message: u8) -> bool {
    packet.bytes().first().is_some_and(|first| (first >> 4) & 3 == message)
}
