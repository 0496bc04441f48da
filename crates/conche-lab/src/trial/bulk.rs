//! TCP bulk transfers over wires.

use std::collections::BTreeMap;

use conche_netsim::transport::bulk::{Bulk, End};
use conche_netsim::transport::tcp::{Acknowledgments, Receiver, Sender, SenderConfig};
use conche_netsim::{Instant, NodeId};
use conche_proto::cc::AnyController;

use super::record::{Control, Flow, Transferred};
use crate::scenario::Tcp;
use crate::units::Size;
use crate::workload::{Tally, Timer};

#[derive(Clone, Debug)]
pub(super) struct PlannedTcp {
    /// Its flow's index.
    pub(super) place: usize,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) control: Control,
    pub(super) tcp: Tcp,
}

type Host = Bulk<AnyController, Timer>;

impl PlannedTcp {
    pub(super) fn host(&self, node: NodeId, controller: AnyController) -> Host {
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let (header, payload) = (bytes(self.tcp.header), bytes(self.tcp.payload));
        if node == self.to {
            let receiver = Receiver::new(self.tcp.segments.get(), Acknowledgments::Cumulative);
            return Bulk::new(self.from, End::Sink(receiver), header, payload);
        }
        let config = SenderConfig {
            segments: self.tcp.segments.get(),
            segment_bytes: u32::try_from(header + payload).unwrap_or(u32::MAX),
            window_limit: self.tcp.window.get(),
            min_rto: self.tcp.min_rto.0,
            max_timeouts: self.tcp.max_timeouts.get(),
            acknowledgments: Acknowledgments::Cumulative,
        };
        let sender = Sender::new(config, controller, Instant::ZERO).with_reno();
        Bulk::new(self.to, End::Source(sender), header, payload)
    }

    pub(super) fn measure(&self, flows: &mut [Flow], hosts: &BTreeMap<NodeId, Host>) {
        let ends = (hosts.get(&self.from).map(Bulk::end), hosts.get(&self.to).map(Bulk::end));
        let (Some(End::Source(sender)), Some(End::Sink(receiver))) = ends else { return };
        let stats = sender.stats();
        let round_trip = stats.round_trips.as_secs_f64() / f64::from(stats.samples);
        let flow = &mut flows[self.place];
        flow.tally = Tally::of_one(receiver.completed());
        flow.transfer = Some(Transferred {
            bytes: self.tcp.payload.0 * u64::from(self.tcp.segments.get()),
            mean_round_trip_s: Some(round_trip).filter(|_| stats.samples > 0),
            routes: Vec::new(),
        });
    }
}
