//! Received frames; duplicates are acknowledged, then dropped.

use crate::event::{Event, EventContext, RadioEventKind};
use crate::mac::access::Outcome;
use crate::mac::network::RadioNetwork;
use crate::mac::queue::{Frame, FrameContents};
use crate::mac::rdc::Rdc;
use crate::mac::station::Reply;
use crate::packet::PacketRef;
use crate::radio::phy::{ACK_PSDU_OCTETS, airtime};
use crate::radio::{BROADCAST, ReceptionLink, Station};
use crate::{Instant, NodeId};

impl RadioNetwork {
    pub(super) fn deliver(
        &mut self,
        around: &mut EventContext<'_>,
        from: Station,
        frame: Frame,
    ) -> Option<(PacketRef, NodeId)> {
        let now = around.scheduler.now();
        if frame.to != BROADCAST {
            let mut via = None;
            self.air.finish(from, now, |receiver| via = Some(receiver));
            return via.and_then(|via| self.receive(around, from, via, frame.dsn));
        }
        let mut receivers = std::mem::take(&mut self.receivers);
        self.air.finish(from, now, |via| receivers.push(via));
        for via in receivers.drain(..) {
            self.receive_copy(around, from, via, frame);
        }
        self.receivers = receivers;
        None
    }

    fn receive(
        &mut self,
        around: &mut EventContext<'_>,
        from: Station,
        via: ReceptionLink,
        dsn: u8,
    ) -> Option<(PacketRef, NodeId)> {
        if let Rdc::ContikiMac(config) = self.mac.rdc {
            self.expect_burst(around, from, via.station, &config);
        }
        if let Some(acknowledgment) = self.mac.attempt.acknowledgment {
            self.stations[usize::from(via.station)].reply = Reply::Ack { dsn };
            self.air.receiver_off_until(via.station, Instant::FAR_FUTURE);
            self.schedule(around, around.scheduler.now() + acknowledgment.turnaround, via.station, RadioEventKind::Ack);
        }
        if !self.accepts(from, via.station, dsn) {
            return None;
        }
        // The first copy delivers the packet; retransmissions are empty.
        let contents =
            std::mem::replace(&mut self.stations[usize::from(from)].frame().contents, FrameContents::Nothing);
        let arrived = match contents {
            FrameContents::Nothing => None,
            FrameContents::Packet(packet) => Some(packet),
            FrameContents::Fragment(datagram) => self.datagrams.receive(datagram),
        };
        arrived.and_then(|packet| self.hand_up(around, packet, via))
    }

    fn receive_copy(&mut self, around: &mut EventContext<'_>, from: Station, via: ReceptionLink, frame: Frame) {
        let node = self.stations[usize::from(via.station)].node;
        if self.mac.rdc != Rdc::AlwaysOn {
            self.rest(around, via.station);
        }
        if self.accepts(from, via.station, frame.dsn)
            && let FrameContents::Packet(packet) = frame.contents
        {
            let copy = around.packets.copy_for(packet, node);
            self.copies += 1;
            if let Some((packet, at)) = self.hand_up(around, copy, via) {
                around.scheduler.schedule(around.scheduler.now(), Event::arrive(packet, at));
            }
        }
    }

    fn accepts(&mut self, from: Station, at: Station, dsn: u8) -> bool {
        let accepted = self.stations[usize::from(at)].accepts(from, dsn);
        self.counters.received += 1;
        self.counters.duplicates += u64::from(!accepted);
        accepted
    }

    fn hand_up(
        &mut self,
        around: &mut EventContext<'_>,
        packet: PacketRef,
        via: ReceptionLink,
    ) -> Option<(PacketRef, NodeId)> {
        around.packets.get_mut(packet).snr_db = self.air.snr_db(via);
        let at = self.stations[usize::from(via.station)].node;
        if self.mac.unload.is_zero() {
            return Some((packet, at));
        }
        let when = around.scheduler.now() + self.mac.unload;
        around.scheduler.schedule(when, Event::arrive(packet, at));
        None
    }

    /// Acknowledgments have no address: each waiting station checks the number.
    pub(in crate::mac) fn transmit_ack(&mut self, around: &mut EventContext<'_>, at: Station) {
        let (now, duration) = (around.scheduler.now(), airtime(ACK_PSDU_OCTETS));
        self.counters.acknowledgments += 1;
        let waits = |station: Station| self.stations[usize::from(station)].awaits_ack();
        self.air.begin(at, now, duration, waits);
        self.schedule(around, now + duration, at, RadioEventKind::FrameEnd);
    }

    pub(in crate::mac) fn end_ack(&mut self, around: &mut EventContext<'_>, at: Station) {
        let now = around.scheduler.now();
        let Reply::Ack { dsn } = std::mem::take(&mut self.stations[usize::from(at)].reply) else { return };
        match self.mac.rdc {
            Rdc::AlwaysOn => self.air.receiver_off_until(at, now + self.mac.attempt.rx_turnaround),
            Rdc::ContikiMac(_) => self.rest(around, at),
        }
        let mut receivers = std::mem::take(&mut self.receivers);
        self.air.finish(at, now, |via| receivers.push(via));
        let another_ends = self.mac.attempt.acknowledgment.is_some_and(|config| config.another_ends_the_wait);
        for ReceptionLink { station, .. } in receivers.drain(..) {
            match self.stations[usize::from(station)].expects(dsn) {
                Some(true) if self.mac.rdc != Rdc::AlwaysOn => self.acknowledge_strobe(station),
                Some(true) => self.end(around, station, Outcome::Sent),
                Some(false) if another_ends && self.mac.rdc == Rdc::AlwaysOn => {
                    self.end(around, station, Outcome::NoAck)
                }
                Some(false) | None => {}
            }
        }
        self.receivers = receivers;
    }
}
