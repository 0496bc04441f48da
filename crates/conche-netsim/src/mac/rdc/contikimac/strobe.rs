//! The sender (`send_packet`): waits for the neighbour's phase, assesses the channel, strobes.

use super::ContikiMac;
use crate::event::{RadioEventKind, Surroundings};
use crate::mac::access::Outcome;
use crate::mac::attempt::{Reply, Step};
use crate::mac::network::RadioNetwork;
use crate::mac::rdc::Rdc;
use crate::packet::PacketRef;
use crate::radio::phy::airtime;
use crate::radio::{BROADCAST, Station};
use crate::{Instant, NodeId};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    /// The neighbour's phase is known (`is_known_receiver`).
    known_receiver: bool,
    /// The burst's previous frame has kept the neighbour awake (`is_receiver_awake`).
    receiver_awake: bool,
    /// Another frame for the neighbour waited at the start.
    more: bool,
    /// It follows in a burst (`PACKETBUF_ATTR_PENDING`).
    pub(super) pending: bool,
    assessments: u8,
    /// Start of the first strobe (`t0`).
    began: Instant,
    /// Start of the last strobe (`txtime`).
    strobe: Instant,
    acknowledged: bool,
}

impl RadioNetwork {
    /// Begins now, or shortly before the neighbour's wake-up.
    pub(in crate::mac) fn begin_train(&mut self, around: &mut Surroundings<'_>, at: Station, config: &ContikiMac) {
        let now = around.scheduler.now();
        let station = &mut self.stations[usize::from(at)];
        let (to, queue) = (station.frame().to, station.attempting);
        let duty = station.duty();
        let begin = duty.phases.begin(to, now, &duty.clock, config.guard_time());
        if let Some(begin) = begin.filter(|begin| *begin > now) {
            // PHASE_DEFERRED: the station is free meanwhile.
            return self.schedule(around, begin, at, RadioEventKind::Attempt(queue));
        }
        duty.train = Train { known_receiver: begin.is_some(), assessments: 1, ..Train::default() };
        // Receiving, about to acknowledge, or in a burst: transmitting would destroy a frame.
        if station.reply != Reply::None || station.duty().burst_until > now || self.is_receiving(at) {
            return self.end(around, at, Outcome::Busy);
        }
        self.sleep(at);
        self.wait(around, at, Step::Assessing, config.cca_check_time);
    }

    pub(in crate::mac) fn step_of_train(&mut self, around: &mut Surroundings<'_>, at: Station, config: &ContikiMac) {
        let now = around.scheduler.now();
        let station = &mut self.stations[usize::from(at)];
        let (step, to, more) = (station.step, station.frame().to, station.queues.more_wait(station.attempting));
        let train = &mut station.duty().train;
        match step {
            Step::Assessing if self.air.is_busy(at, now) => self.end_train(around, at, config, Outcome::Busy),
            Step::Assessing if train.assessments < config.cca_count_max_tx => {
                train.assessments += 1;
                self.wait(around, at, Step::Assessing, config.period());
            }
            Step::Assessing => self.wait(around, at, Step::Preparing, config.cca_sleep_time),
            Step::Preparing => {
                train.began = now;
                train.more = more;
                train.pending = more && to != BROADCAST && config.with_bursts;
                self.announce(around, at, config);
                self.strobe(around, at);
            }
            Step::Switching => self.send_frame(around, at),
            Step::AwaitingAck if to != BROADCAST && (self.air.is_receiving(at) || self.air.is_busy(at, now)) => {
                self.wait(around, at, Step::ReadingAck, config.after_ack_detected_wait_time);
            }
            Step::AwaitingAck if now >= train.began + train.longest(config, to) => {
                let outcome = if to == BROADCAST { Outcome::Sent } else { Outcome::NoAck };
                self.end_train(around, at, config, outcome);
            }
            Step::AwaitingAck => self.strobe(around, at),
            Step::ReadingAck if train.acknowledged => self.end_train(around, at, config, Outcome::Sent),
            // Not the acknowledgment: a collision.
            Step::ReadingAck => self.end_train(around, at, config, Outcome::Busy),
            Step::Idle | Step::Transmitting => unreachable!("these steps have no time of their own"),
        }
    }

    fn strobe(&mut self, around: &mut Surroundings<'_>, at: Station) {
        let station = &mut self.stations[usize::from(at)];
        station.duty().train.strobe = around.scheduler.now();
        self.air.receiver_off_until(at, Instant::FAR_FUTURE);
        self.wait(around, at, Step::Switching, self.mac.attempt.tx_turnaround);
    }

    pub(in crate::mac) fn end_strobe(
        &mut self,
        around: &mut Surroundings<'_>,
        at: Station,
        config: &ContikiMac,
    ) -> Option<(PacketRef, NodeId)> {
        let frame = *self.stations[usize::from(at)].frame();
        self.air.receiver_off_until(at, around.scheduler.now() + self.mac.attempt.rx_turnaround);
        let arrived = self.deliver(around, at, frame);
        self.wait(around, at, Step::AwaitingAck, config.inter_packet_interval);
        arrived
    }

    /// Records an acknowledgment, read later.
    pub(in crate::mac) fn acknowledge_strobe(&mut self, at: Station) {
        self.stations[usize::from(at)].duty().train.acknowledged = true;
    }

    /// Whether the last acknowledged frame announced another.
    pub(in crate::mac) fn in_burst(&mut self, at: Station) -> bool {
        self.mac.rdc != Rdc::AlwaysOn && self.stations[usize::from(at)].duty().train.pending
    }

    /// Whether frames for a burst waited when the last frame was sent.
    ///
    /// Frames that arrive during its transmission do not count: a mote does nothing else meanwhile,
    /// so they find an empty queue. Without duty cycling one burst takes all waiting frames
    /// (`send_list`).
    pub(in crate::mac) fn left_waiting(&mut self, at: Station) -> bool {
        self.mac.rdc != Rdc::AlwaysOn && self.stations[usize::from(at)].duty().train.more
    }

    /// Sends at once: the neighbour is awake, and this station has just used the channel.
    pub(in crate::mac) fn continue_burst(&mut self, around: &mut Surroundings<'_>, at: Station) {
        let duty = self.stations[usize::from(at)].duty();
        duty.train = Train { receiver_awake: true, ..Train::default() };
        self.wait(around, at, Step::Preparing, self.mac.load);
    }

    fn end_train(&mut self, around: &mut Surroundings<'_>, at: Station, config: &ContikiMac, outcome: Outcome) {
        self.sleep(at);
        let station = &mut self.stations[usize::from(at)];
        let to = station.frame().to;
        let duty = station.duty();
        if config.with_phase_optimization && to != BROADCAST && !duty.train.receiver_awake {
            duty.phases.update(config, to, duty.train.strobe, outcome, around.scheduler.now());
        }
        self.end(around, at, outcome);
    }

    /// Announces a train to the stations in range, whose checks will detect energy.
    fn announce(&mut self, around: &mut Surroundings<'_>, at: Station, config: &ContikiMac) {
        let now = around.scheduler.now();
        let station = &mut self.stations[usize::from(at)];
        let frame = *station.frame();
        let longest = station.duty().train.longest(config, frame.to);
        let until = now + longest + self.mac.attempt.tx_turnaround + airtime(frame.psdu_octets);
        let mut heard_by = std::mem::take(&mut self.hearers);
        self.air.heard_by(at, |station| heard_by.push(station));
        for hearer in heard_by.drain(..) {
            let duty = self.stations[usize::from(hearer)].duty();
            duty.energy_until = duty.energy_until.max(until);
            self.schedule_check(around, hearer);
        }
        self.hearers = heard_by;
    }
}

impl Train {
    /// Returns the maximum time from the first to the last strobe.
    fn longest(&self, config: &ContikiMac, to: Station) -> std::time::Duration {
        if (self.known_receiver || self.receiver_awake) && to != BROADCAST {
            config.max_phase_strobe_time.min(config.strobe_time())
        } else {
            config.strobe_time()
        }
    }
}
