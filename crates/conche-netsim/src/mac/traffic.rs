//! Frames entering and leaving a station's queues.

use super::access::{Access, Decision, Outcome, TransmitOutcome};
use super::network::RadioNetwork;
use super::queue::{Enqueued, Frame, FrameContents, Origin, QueueIndex};
use crate::event::{Event, EventContext, RadioEventKind};
use crate::ids::Hop;
use crate::packet::PacketRef;
use crate::radio::{BROADCAST, Station};
use crate::sixlowpan::{DatagramTooLong, Sixlowpan};
use crate::trace::DropReason;
use crate::{LinkId, NodeId, PacketId, RadioId};

enum SendRefusal {
    QueueFull,
    TooLong,
}

impl RadioNetwork {
    pub(crate) fn send(&mut self, around: &mut EventContext<'_>, packet: PacketRef, hop: Hop, link: LinkId) {
        let payload_bytes = around.packets.get(packet).bytes().len();
        let taken = match self.mac.sixlowpan {
            Some(headers) => self.send_datagram(around, packet, hop, link, &headers),
            None => match self.mac.psdu_octets(payload_bytes) {
                Some(octets) => {
                    let frame = Frame::new(FrameContents::Packet(packet), Origin::Hop(link), hop.to, octets);
                    self.enqueue(around, hop.from, frame)
                }
                None => Err(SendRefusal::TooLong),
            },
        };
        match taken {
            Ok(()) => {}
            Err(SendRefusal::QueueFull) => self.drop(around, packet, DropReason::QueueFull(link)),
            Err(SendRefusal::TooLong) => self.drop(around, packet, DropReason::TooLong(link)),
        }
    }

    fn send_datagram(
        &mut self,
        around: &mut EventContext<'_>,
        packet: PacketRef,
        hop: Hop,
        link: LinkId,
        headers: &Sixlowpan,
    ) -> Result<(), SendRefusal> {
        let frames = self.mac.frames(headers, around.packets.get(packet).bytes().len());
        let frames = frames.map_err(|DatagramTooLong(_)| SendRefusal::TooLong)?;
        let (mut sizes, origin) = (frames.clone(), Origin::Hop(link));
        let contents = match frames.count() {
            1 => FrameContents::Packet(packet),
            count if self.stations[usize::from(hop.from)].queues.have_room(hop.to, count) => {
                FrameContents::Fragment(self.datagrams.insert(packet, count))
            }
            _ => return Err(SendRefusal::QueueFull),
        };
        sizes.try_for_each(|octets| self.enqueue(around, hop.from, Frame::new(contents, origin, hop.to, octets)))
    }

    pub(crate) fn transmit(&mut self, around: &mut EventContext<'_>, packet: PacketRef, node: NodeId) {
        let (id, to) = (around.packets.get(packet).meta.id, around.packets.get(packet).meta.to);
        let to = if to == NodeId::BROADCAST { Some(BROADCAST) } else { self.station_map.of(to) };
        let psdu_octets = self.mac.psdu_octets(around.packets.get(packet).bytes().len());
        let outcome = match (self.station_map.of(node), to, psdu_octets) {
            (None, _, _) | (_, None, _) => TransmitOutcome::NoStation,
            (_, _, None) => TransmitOutcome::TooLong,
            (Some(from), Some(to), Some(octets)) => {
                let frame = Frame::new(FrameContents::Packet(packet), Origin::Host(id), to, octets);
                match self.enqueue(around, from, frame) {
                    Ok(()) => return,
                    Err(_) => TransmitOutcome::QueueFull,
                }
            }
        };
        self.drop(around, packet, DropReason::Untransmitted(RadioId(self.number)));
        self.report_outcome(around, node, id, outcome);
    }

    pub(crate) fn start_control(&mut self, around: &mut EventContext<'_>) {
        for station in 0..Station::try_from(self.stations.len()).expect("the layout is checked") {
            self.schedule_control(around, station);
        }
    }

    pub(super) fn send_control(&mut self, around: &mut EventContext<'_>, at: Station) {
        if let Some(config) = self.mac.control {
            // A frame that finds a full queue is dropped.
            let frame = Frame::new(FrameContents::Nothing, Origin::Control, BROADCAST, config.psdu_octets);
            let _ = self.enqueue(around, at, frame);
        }
        self.schedule_control(around, at);
    }

    fn schedule_control(&mut self, around: &mut EventContext<'_>, at: Station) {
        let source = &mut self.stations[usize::from(at)].control;
        if let (Some(config), Some(source)) = (self.mac.control, source) {
            let when = source.next(&config);
            self.schedule(around, when, at, RadioEventKind::Control);
        }
    }

    fn enqueue(&mut self, around: &mut EventContext<'_>, from: Station, frame: Frame) -> Result<(), SendRefusal> {
        match self.stations[usize::from(from)].enqueue(frame) {
            Enqueued::First(queue) => self.start(around, from, queue, None),
            Enqueued::Behind => {}
            Enqueued::Full => return Err(SendRefusal::QueueFull),
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, around: &mut EventContext<'_>, at: Station, queue: QueueIndex, outcome: Outcome) {
        let station = &mut self.stations[usize::from(at)];
        let (frame, more) = station.queues.pop(queue);
        if let (Outcome::Sent, Some(spacing)) = (outcome, self.mac.attempt.spacing) {
            station.rest_until = around.scheduler.now() + spacing.after(frame.psdu_octets);
        }
        let unreceived = match frame.contents {
            FrameContents::Nothing => None,
            FrameContents::Packet(packet) => Some(packet),
            FrameContents::Fragment(datagram) => self.datagrams.give_up(datagram),
        };
        if let Some(packet) = unreceived {
            self.dispose(around, packet, frame, outcome);
        }
        match frame.origin {
            Origin::Host(id) => {
                let node = self.stations[usize::from(at)].node;
                self.report_outcome(around, node, id, outcome.into());
            }
            Origin::Control => self.counters.control += u64::from(outcome == Outcome::Sent),
            Origin::Hop(_) => {}
        }
        if more && outcome == Outcome::Sent && self.in_burst(at) {
            let station = &mut self.stations[usize::from(at)];
            let _ = station.queues.get(queue).access.first(&mut station.stream);
            self.continue_burst(around, at);
        } else if more {
            let waited = outcome != Outcome::Sent || self.left_waiting(at);
            self.start(around, at, queue, waited.then_some(outcome));
        }
    }

    fn dispose(&mut self, around: &mut EventContext<'_>, packet: PacketRef, frame: Frame, outcome: Outcome) {
        if frame.to == BROADCAST && outcome == Outcome::Sent {
            self.broadcast += 1;
            return around.packets.remove(packet);
        }
        let reason = match (frame.origin, outcome) {
            // Also for a false duplicate.
            (Origin::Hop(link), Outcome::Sent) => DropReason::Lost(link),
            (Origin::Hop(link), Outcome::Busy) => DropReason::ChannelBusy(link),
            (Origin::Hop(link), Outcome::NoAck) => DropReason::Unacknowledged(link),
            (Origin::Host(_) | Origin::Control, _) => DropReason::Untransmitted(RadioId(self.number)),
        };
        self.drop(around, packet, reason);
    }

    pub(super) fn count(&mut self, outcome: Outcome, decision: Decision) {
        let given_up = u64::from(decision == Decision::GiveUp);
        match outcome {
            Outcome::Sent => self.counters.succeeded += 1,
            Outcome::Busy => {
                self.counters.busy += 1;
                self.counters.channel_access_failures += given_up;
            }
            Outcome::NoAck => {
                self.counters.no_ack += 1;
                self.counters.unacknowledged += given_up;
            }
        }
    }

    fn report_outcome(
        &mut self,
        around: &mut EventContext<'_>,
        node: NodeId,
        frame: PacketId,
        outcome: TransmitOutcome,
    ) {
        self.outcomes.push_back((node, frame, outcome));
        around.scheduler.schedule(around.scheduler.now(), Event::Transmitted(RadioId(self.number)));
    }

    fn drop(&mut self, around: &mut EventContext<'_>, packet: PacketRef, reason: DropReason) {
        self.dropped += 1;
        around.observer.on_dropped(around.scheduler.now(), around.packets.get(packet), reason);
        around.packets.remove(packet);
    }
}
