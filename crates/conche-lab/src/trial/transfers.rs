//! Bulk transfers between motes with their own routing.

use std::collections::BTreeMap;

use conche_netsim::mote::{Mote, MoteConfig, Role, Router};
use conche_netsim::transport::tcp::{Receiver, Sender, SenderConfig};
use conche_netsim::{Instant, NodeId, RadioId};
use conche_proto::cc::AnyController;

use super::record::{Control, Record, Transferred};
use super::routes::{Route, router};
use crate::scenario::{Routing, Transfer};
use crate::units::Size;
use crate::workload::{Tally, Timer};

/// A radio channel's motes.
#[derive(Clone, Debug)]
pub(super) struct Mesh {
    pub(super) radio: RadioId,
    pub(super) nodes: Vec<NodeId>,
    pub(super) routing: Routing,
}

#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// Its flow's index.
    pub(super) place: usize,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) control: Control,
    pub(super) transfer: Transfer,
    /// If routes are frozen.
    pub(super) route: Option<Route>,
}

type Host = Mote<AnyController, Timer>;

pub(super) fn mote(mesh: &Mesh, node: NodeId, planned: &Planned, controller: AnyController) -> Host {
    let Planned { from, to, transfer, route, .. } = planned;
    let router = match &mesh.routing {
        Routing::Aodv(aodv) => router(node, aodv),
        _ => Router::Frozen(route.iter().flat_map(|route| route.next_hops(node)).collect()),
    };
    let role = if node == *to {
        Role::Sink(*from, Receiver::new(transfer.segments.get(), transfer.acknowledgments))
    } else if node == *from {
        let config = SenderConfig {
            segments: transfer.segments.get(),
            segment_bytes: u32::try_from(transfer.datagram_octets()).unwrap_or(u32::MAX),
            window_limit: transfer.window.get(),
            min_rto: transfer.min_rto.0,
            max_timeouts: transfer.max_timeouts.get(),
            acknowledgments: transfer.acknowledgments,
        };
        Role::Source(*to, Sender::new(config, controller, Instant::ZERO))
    } else {
        Role::Relay
    };
    Mote::new(node, mote_config(mesh.radio, transfer), router, role)
}

pub(super) fn mote_config(radio: RadioId, transfer: &Transfer) -> MoteConfig {
    // The checked scenario makes both fit a frame.
    let octets = |size: Size| u8::try_from(size.0).unwrap_or(u8::MAX);
    let (header_octets, payload_octets) = (octets(transfer.header), octets(transfer.payload));
    MoteConfig { radio, header_octets, payload_octets, processing: transfer.processing.0 }
}

pub(super) fn measure(record: &mut Record, motes: &BTreeMap<NodeId, Host>, planned: &Planned) {
    record.handed_over = motes.values().map(|mote| mote.stats().handed_over).sum();
    record.given_up = motes.values().map(|mote| mote.stats().given_up).sum();
    let Planned { place, from, to, transfer, .. } = planned;
    let (Some(source), Some(sink)) = (motes.get(from), motes.get(to)) else { return };
    let (Role::Source(_, sender), Role::Sink(_, receiver)) = (source.role(), sink.role()) else { return };
    let (stats, done) = (sender.stats(), receiver.completed());
    let flow = &mut record.flows[*place];
    flow.tally = Tally::of_one(done);
    let round_trip = stats.round_trips.as_secs_f64() / f64::from(stats.samples);
    flow.transfer = Some(Transferred {
        bytes: transfer.payload.0 * u64::from(transfer.segments.get()),
        mean_round_trip_s: Some(round_trip).filter(|_| stats.samples > 0),
        routes: source.stats().routes_found.clone(),
    });
}

/// Mixing keeps neighbouring seeds of experiments from producing the same runs.
pub(super) fn seed_apart(seed: u64, number: u64) -> u64 {
    seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
