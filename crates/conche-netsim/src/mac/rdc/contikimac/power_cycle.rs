//! The receiver (`powercycle`): checks the channel, stays on if busy, sleeps.

use super::ContikiMac;
use crate::Instant;
use crate::event::{RadioEventKind, Surroundings};
use crate::mac::attempt::{Reply, Step};
use crate::mac::network::RadioNetwork;
use crate::radio::{BROADCAST, Station};

impl RadioNetwork {
    pub(super) fn schedule_check(&mut self, around: &mut Surroundings<'_>, at: Station) {
        let duty = self.stations[usize::from(at)].duty();
        let next = duty.clock.check_after(around.scheduler.now());
        if !duty.check_scheduled && next <= duty.energy_until {
            duty.check_scheduled = true;
            self.schedule(around, next, at, RadioEventKind::Check(0));
        }
    }

    pub(in crate::mac) fn check(
        &mut self,
        around: &mut Surroundings<'_>,
        at: Station,
        config: &ContikiMac,
        before: u8,
    ) {
        let now = around.scheduler.now();
        if before == 0 {
            self.stations[usize::from(at)].duty().check_scheduled = false;
            self.schedule_check(around, at);
        }
        let station = &mut self.stations[usize::from(at)];
        // Sending, or on for another reason.
        let is_on = station.duty().listening.is_some() || station.duty().burst_until > now;
        if station.step != Step::Idle || station.reply != Reply::None || is_on {
            return;
        }
        if self.air.is_busy(at, now) {
            station.duty().listening = Some(now);
            self.air.receiver_off_until(at, now);
            let fast_sleep = config.period() * (u32::from(config.max_nonactivity_periods) + 1);
            self.schedule(around, now + fast_sleep, at, RadioEventKind::EndListening);
        } else if before + 1 < config.cca_count_max {
            self.schedule(around, now + config.period(), at, RadioEventKind::Check(before + 1));
        }
    }

    pub(in crate::mac) fn end_listening(&mut self, around: &mut Surroundings<'_>, at: Station, config: &ContikiMac) {
        let now = around.scheduler.now();
        let duty = self.stations[usize::from(at)].duty();
        if duty.burst_until == now {
            // `recv_burst_off`: the burst's next frame did not arrive.
            return self.sleep(at);
        }
        let Some(since) = duty.listening else { return };
        if self.is_receiving(at) && now < since + config.listen_time_after_packet_detected {
            self.schedule(around, now + config.period(), at, RadioEventKind::EndListening);
        } else {
            self.sleep(at);
        }
    }

    /// Stays on if a unicast frame announces another.
    pub(in crate::mac) fn expect_burst(
        &mut self,
        around: &mut Surroundings<'_>,
        from: Station,
        at: Station,
        config: &ContikiMac,
    ) {
        let until = around.scheduler.now() + config.inter_packet_deadline;
        let pending = self.stations[usize::from(from)].duty().train.pending;
        let duty = self.stations[usize::from(at)].duty();
        duty.burst_until = if pending { until } else { Instant::ZERO };
        if pending {
            self.schedule(around, until, at, RadioEventKind::EndListening);
        }
    }

    /// Sleeps after an acknowledgment; keeps listening in a burst.
    pub(in crate::mac) fn rest(&mut self, around: &mut Surroundings<'_>, at: Station) {
        let now = around.scheduler.now();
        self.sleep(at);
        if self.stations[usize::from(at)].duty().burst_until > now {
            self.air.receiver_off_until(at, now + self.mac.attempt.rx_turnaround);
        }
    }

    pub(in crate::mac) fn sleep(&mut self, at: Station) {
        self.air.receiver_off_until(at, Instant::FAR_FUTURE);
        self.stations[usize::from(at)].duty().listening = None;
    }

    /// Whether a frame with this station's address is being received.
    pub(super) fn is_receiving(&mut self, at: Station) -> bool {
        let Some(from) = self.air.receiving_from(at) else { return false };
        let sender = &mut self.stations[usize::from(from)];
        sender.step == Step::Transmitting && matches!(sender.frame().to, to if to == at || to == BROADCAST)
    }
}
