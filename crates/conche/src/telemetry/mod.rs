//! [`Telemetry`]: reports a socket's events to `tracing` (datagrams only) and to the [`Watchers`].
//!
//! The `tracing` events have the target `conche::message` and the level TRACE. `decoded` is for
//! subscribers that print text; others decode the datagram.

#[cfg(feature = "metrics")]
pub mod metrics;
pub mod watch;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use conche_proto::codec::Message;
use conche_proto::{Datagram, Event, ExchangeId, Instant, PeerSnapshot, Stats, Transmit};
use tracing::{Level, enabled, trace};

use crate::address::Address;
use crate::clock::Clock;
use crate::fence::Fence;
use watch::{DropReason, Fact, Notice, Watchers};

#[derive(Debug)]
pub(crate) struct Telemetry {
    watchers: Watchers,
    socket: SocketAddr,
    clock: Clock,
    fence: Fence,
}

#[derive(Debug)]
pub(crate) struct HandledDatagram<'a> {
    pub(crate) datagram: &'a Datagram<'a, Address>,
    pub(crate) before: &'a Stats,
    pub(crate) after: &'a Stats,
    pub(crate) path: Option<PeerSnapshot>,
}

impl Telemetry {
    pub(crate) fn new(watchers: Watchers, socket: SocketAddr, clock: Clock, fence: Fence) -> Self {
        Self { watchers, socket, clock, fence }
    }

    pub(crate) fn is_watched(&self) -> bool {
        !self.watchers.is_empty()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_watched() || enabled!(target: "conche::message", Level::TRACE)
    }

    pub(crate) fn departed(&self, now: Instant, transmit: &Transmit<Address>, datagram: &[u8], sent: &io::Result<()>) {
        let Transmit { to, attempt, ecn, local, .. } = *transmit;
        let exchange = transmit.exchange.map(ExchangeId::as_u64);
        let fact = match sent {
            Ok(()) => {
                trace!(target: "conche::message", peer = %to, attempt, datagram, decoded = %Decoded(datagram), "sent");
                Fact::Sent { attempt, exchange, ecn }
            }
            Err(error) => Fact::NotSent { attempt, exchange, error: error.kind() },
        };
        self.report(now, to, local, fact, datagram);
    }

    pub(crate) fn arrived(&self, now: Instant, arrived: &Datagram<'_, Address>) {
        let Datagram { from, bytes: datagram, local, multicast, ecn, .. } = *arrived;
        trace!(target: "conche::message", peer = %from, datagram, decoded = %Decoded(datagram), "received");
        self.report(now, from, local, Fact::Received { multicast, ecn }, datagram);
    }

    pub(crate) fn handled(&self, now: Instant, handled: &HandledDatagram<'_>) {
        let HandledDatagram { datagram, before, after, path } = *handled;
        if let Some(reason) = DropReason::between(before, after) {
            self.report(now, datagram.from, datagram.local, Fact::Dropped { reason }, datagram.bytes);
        }
        self.path(now, datagram.from, path);
    }

    pub(crate) fn unreachable(&self, now: Instant, peer: Address) {
        self.report(now, peer, None, Fact::Unreachable, &[]);
    }

    pub(crate) fn path(&self, now: Instant, peer: Address, path: Option<PeerSnapshot>) {
        if let Some(path) = path {
            self.report(now, peer, None, Fact::Path(path), &[]);
        }
    }

    pub(crate) fn event(&self, now: Instant, event: &Event<Address>) {
        if let Some((peer, fact)) = Fact::of_event(event) {
            self.report(now, peer, None, fact, &[]);
        }
    }

    fn report(&self, now: Instant, peer: Address, local: Option<IpAddr>, fact: Fact, datagram: &[u8]) {
        if !self.is_watched() {
            return;
        }
        // A time that tokio's clock cannot represent is centuries away.
        let Some(at) = self.clock.wake_up(now) else { return };
        let local = local.map(|local| local.to_canonical());
        let notice = Notice { at, socket: self.socket, local, peer: peer.canonical(), fact, datagram };
        self.fence.run("a watcher", || self.watchers.notice(&notice));
    }
}

struct Decoded<'a>(&'a [u8]);

impl fmt::Display for Decoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Message::decode_extended(self.0) {
            Ok(message) => message.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
