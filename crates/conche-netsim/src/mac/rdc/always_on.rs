//! Attempts to receivers that are always on.

use std::time::Duration;

use crate::event::{EventContext, RadioEventKind};
use crate::mac::access::Outcome;
use crate::mac::network::RadioNetwork;
use crate::mac::station::{Reply, Step};
use crate::packet::PacketRef;
use crate::radio::phy::airtime;
use crate::radio::{BROADCAST, Station};
use crate::{Instant, NodeId};

impl RadioNetwork {
    #[inline]
    pub(in crate::mac) fn assess(&mut self, around: &mut EventContext<'_>, at: Station) {
        match self.mac.attempt.cca {
            Some(duration) => self.wait(around, at, Step::Assessing, duration),
            None => self.switch(around, at),
        }
    }

    #[inline]
    pub(in crate::mac) fn step_always_on(&mut self, around: &mut EventContext<'_>, at: Station) {
        match self.stations[usize::from(at)].step {
            Step::Assessing if self.air.is_busy(at, around.scheduler.now()) => self.end(around, at, Outcome::Busy),
            Step::Assessing if !self.mac.attempt.preparation.is_zero() => {
                self.wait(around, at, Step::Preparing, self.mac.attempt.preparation);
            }
            Step::Assessing | Step::Preparing => self.switch(around, at),
            Step::Switching => self.send_frame(around, at),
            Step::Idle | Step::Transmitting | Step::AwaitingAck | Step::ReadingAck => {
                unreachable!("these steps have no time of their own")
            }
        }
    }

    fn switch(&mut self, around: &mut EventContext<'_>, at: Station) {
        if self.stations[usize::from(at)].reply != Reply::None {
            return self.end(around, at, Outcome::Busy);
        }
        self.air.receiver_off_until(at, Instant::FAR_FUTURE);
        match self.mac.attempt.tx_turnaround {
            Duration::ZERO => self.send_frame(around, at),
            turnaround => self.wait(around, at, Step::Switching, turnaround),
        }
    }

    pub(super) fn send_frame(&mut self, around: &mut EventContext<'_>, at: Station) {
        let station = &mut self.stations[usize::from(at)];
        station.step = Step::Transmitting;
        let frame = *station.frame();
        let duration = airtime(frame.psdu_octets);
        self.counters.frames += 1;
        self.air.receiver_off_until(at, Instant::FAR_FUTURE);
        self.air.begin(at, around.scheduler.now(), duration, |station| station == frame.to || frame.to == BROADCAST);
        self.schedule(around, around.scheduler.now() + duration, at, RadioEventKind::FrameEnd);
    }

    #[inline]
    pub(in crate::mac) fn end_frame(
        &mut self,
        around: &mut EventContext<'_>,
        at: Station,
    ) -> Option<(PacketRef, NodeId)> {
        let now = around.scheduler.now();
        let frame = *self.stations[usize::from(at)].frame();
        self.air.receiver_off_until(at, now + self.mac.attempt.rx_turnaround);
        let arrived = self.deliver(around, at, frame);
        match self.mac.attempt.acknowledgment {
            Some(acknowledgment) if frame.to != BROADCAST => {
                let station = &mut self.stations[usize::from(at)];
                station.step = Step::AwaitingAck;
                station.wait = station.wait.wrapping_add(1);
                let timeout = RadioEventKind::AckTimeout(station.wait);
                self.schedule(around, now + acknowledgment.wait, at, timeout);
            }
            _ => self.end(around, at, Outcome::Sent),
        }
        arrived
    }
}
