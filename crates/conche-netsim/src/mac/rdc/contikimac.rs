//! ContikiMAC (Dunkels: The ContikiMAC Radio Duty Cycling Protocol, SICS T2011:13).
//!
//! Receivers sleep and check the channel periodically, each at its own phase. Senders repeat frames
//! until acknowledged.
//!
//! ```text
//!   sender    │6 CCAs│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap: ACK│read│
//!   receiver                        ··▼ CCA: busy, on ─────────│▓ frame ▓│▓ ACK ▓│off ····
//!   another                  ·····▼ CCA: busy, on ────────────────────────────── off ····
//! ```
//!
//! A sender that knows its neighbour's phase (phase.c) starts a guard time before the wake-up and
//! gives up soon after. Frames for one neighbour follow in a burst: each announces the next, which
//! keeps the receiver on.
//!
//! Source: `contikimac.c` and `phase.c` of Contiki 2.7 and 3.0. Divergences:
//!
//! - Broadcasts are not sent in bursts.
//! - Fast sleep counts periods of inactivity but not of silence, which affects only energy.
//! - Only stations that one strobe train reaches above the assessment threshold schedule checks: an
//!   idle channel costs no events, and two trains above it only together wake none.
//! - The phase table is unlimited, and rtimers never fire late.

use std::time::Duration;

pub use config::ContikiMac;

use crate::event::{EventContext, RadioEventKind};
use crate::mac::access::Outcome;
use crate::mac::network::RadioNetwork;
use crate::mac::rdc::Rdc;
use crate::mac::station::{Reply, Step};
use crate::packet::PacketRef;
use crate::radio::phy::airtime;
use crate::radio::{BROADCAST, Station};
use crate::rng::Stream;
use crate::units::nanos;
use crate::{Instant, NodeId};

mod config;

#[derive(Debug)]
pub(in crate::mac) struct DutyCycle {
    clock: Clock,
    phases: Phases,
    train: Train,
    /// Time of the energy detection that keeps the station on.
    listening: Option<Instant>,
    check_scheduled: bool,
    /// End of the wait in a burst (`we_are_receiving_burst`).
    burst_until: Instant,
    /// Latest end of the detected strobe trains.
    energy_until: Instant,
}

impl DutyCycle {
    pub(in crate::mac) fn new(config: &ContikiMac, stream: &mut Stream) -> Self {
        Self {
            clock: Clock::new(config, stream),
            phases: Phases::default(),
            train: Train::default(),
            listening: None,
            check_scheduled: false,
            burst_until: Instant::ZERO,
            energy_until: Instant::ZERO,
        }
    }
}

// The receiver (`powercycle`): checks the channel, stays on if busy, sleeps.
impl RadioNetwork {
    pub(super) fn schedule_check(&mut self, around: &mut EventContext<'_>, at: Station) {
        let duty = self.stations[usize::from(at)].duty();
        let next = duty.clock.check_after(around.scheduler.now());
        if !duty.check_scheduled && next <= duty.energy_until {
            duty.check_scheduled = true;
            self.schedule(around, next, at, RadioEventKind::Check(0));
        }
    }

    pub(in crate::mac) fn check(
        &mut self,
        around: &mut EventContext<'_>,
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

    pub(in crate::mac) fn end_listening(&mut self, around: &mut EventContext<'_>, at: Station, config: &ContikiMac) {
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

    pub(in crate::mac) fn expect_burst(
        &mut self,
        around: &mut EventContext<'_>,
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

    pub(in crate::mac) fn rest(&mut self, around: &mut EventContext<'_>, at: Station) {
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

    pub(super) fn is_receiving(&mut self, at: Station) -> bool {
        let Some(from) = self.air.receiving_from(at) else { return false };
        let sender = &mut self.stations[usize::from(from)];
        sender.step == Step::Transmitting && matches!(sender.frame().to, to if to == at || to == BROADCAST)
    }
}

/// A station's clock, with drift (`phase.c`).
#[derive(Clone, Copy, Debug)]
struct Clock {
    first: Instant,
    cycle: Duration,
}

#[derive(Debug, Default)]
struct Phases(Vec<Phase>);

#[derive(Clone, Copy, Debug)]
struct Phase {
    neighbour: Station,
    /// Start of the last acknowledged strobe.
    time: Instant,
    /// Unacknowledged transmissions since then.
    noacks: u8,
    /// Time from which a further one makes the phase stale.
    noacks_end: Instant,
}

impl Clock {
    pub(super) fn new(config: &ContikiMac, stream: &mut Stream) -> Self {
        const BILLION: u64 = 1_000_000_000;
        let cycle = nanos(config.cycle_time);
        let ppb = u64::from(config.clock_drift_ppm.min(1_000_000)) * 1000;
        let first = Instant::from_nanos(stream.below(cycle));
        let pace = u128::from(BILLION - ppb + stream.between(0, 2 * ppb));
        let nanos = u128::from(cycle) * pace / u128::from(BILLION);
        Self { first, cycle: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1)) }
    }

    pub(super) fn check_after(&self, now: Instant) -> Instant {
        if now < self.first { self.first } else { next(self.first, self.cycle, now + Duration::from_nanos(1)) }
    }
}

impl Phases {
    /// Returns the time `guard` before the next wake-up, if the phase is known (`phase_wait`).
    pub(super) fn begin(&self, neighbour: Station, now: Instant, clock: &Clock, guard: Duration) -> Option<Instant> {
        let phase = self.0.iter().find(|phase| phase.neighbour == neighbour)?;
        Some(now + (next(phase.time, clock.cycle, now + guard) - (now + guard)))
    }

    /// `strobe` is the start of the transmission's last strobe (`phase_update`).
    pub(super) fn update(
        &mut self,
        config: &ContikiMac,
        neighbour: Station,
        strobe: Instant,
        outcome: Outcome,
        now: Instant,
    ) {
        let known = self.0.iter().position(|phase| phase.neighbour == neighbour);
        match (known, outcome) {
            (Some(known), Outcome::Sent) => (self.0[known].time, self.0[known].noacks) = (strobe, 0),
            (None, Outcome::Sent) => {
                self.0.push(Phase { neighbour, time: strobe, noacks: 0, noacks_end: Instant::ZERO });
            }
            (Some(known), Outcome::NoAck) => {
                let phase = &mut self.0[known];
                phase.noacks += 1;
                if phase.noacks == 1 {
                    phase.noacks_end = now + config.max_noacks_time;
                }
                if phase.noacks >= config.max_noacks || now >= phase.noacks_end {
                    self.0.remove(known);
                }
            }
            (None, Outcome::NoAck) | (_, Outcome::Busy) => {}
        }
    }
}

fn next(from: Instant, cycle: Duration, earliest: Instant) -> Instant {
    let cycles = (earliest - from).as_nanos().div_ceil(cycle.as_nanos());
    from + Duration::from_nanos(u64::try_from(cycles * cycle.as_nanos()).unwrap_or(u64::MAX))
}

/// The sender's strobes (`send_packet`): wait for the phase, assess the channel, strobe.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    /// The neighbour's phase is known (`is_known_receiver`).
    known_receiver: bool,
    /// The burst's previous frame kept the neighbour awake (`is_receiver_awake`).
    receiver_awake: bool,
    /// Another frame for the neighbour waited at the start.
    more: bool,
    /// That frame follows in a burst (`PACKETBUF_ATTR_PENDING`).
    pub(super) pending: bool,
    assessments: u8,
    /// Start of the first strobe (`t0`).
    began: Instant,
    /// Start of the last strobe (`txtime`).
    strobe: Instant,
    acknowledged: bool,
}

impl RadioNetwork {
    pub(in crate::mac) fn begin_train(&mut self, around: &mut EventContext<'_>, at: Station, config: &ContikiMac) {
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
        // Transmitting would destroy a frame.
        if station.reply != Reply::None || station.duty().burst_until > now || self.is_receiving(at) {
            return self.end(around, at, Outcome::Busy);
        }
        self.sleep(at);
        self.wait(around, at, Step::Assessing, config.cca_check_time);
    }

    pub(in crate::mac) fn step_of_train(&mut self, around: &mut EventContext<'_>, at: Station, config: &ContikiMac) {
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

    fn strobe(&mut self, around: &mut EventContext<'_>, at: Station) {
        let station = &mut self.stations[usize::from(at)];
        station.duty().train.strobe = around.scheduler.now();
        self.air.receiver_off_until(at, Instant::FAR_FUTURE);
        self.wait(around, at, Step::Switching, self.mac.attempt.tx_turnaround);
    }

    pub(in crate::mac) fn end_strobe(
        &mut self,
        around: &mut EventContext<'_>,
        at: Station,
        config: &ContikiMac,
    ) -> Option<(PacketRef, NodeId)> {
        let frame = *self.stations[usize::from(at)].frame();
        self.air.receiver_off_until(at, around.scheduler.now() + self.mac.attempt.rx_turnaround);
        let arrived = self.deliver(around, at, frame);
        self.wait(around, at, Step::AwaitingAck, config.inter_packet_interval);
        arrived
    }

    pub(in crate::mac) fn acknowledge_strobe(&mut self, at: Station) {
        self.stations[usize::from(at)].duty().train.acknowledged = true;
    }

    pub(in crate::mac) fn in_burst(&mut self, at: Station) -> bool {
        self.mac.rdc != Rdc::AlwaysOn && self.stations[usize::from(at)].duty().train.pending
    }

    /// Returns `true` if frames for a burst waited when the last frame was sent.
    ///
    /// Later frames find an empty queue, because a mote does nothing else meanwhile. Without duty
    /// cycling one burst takes all waiting frames (`send_list`).
    pub(in crate::mac) fn left_waiting(&mut self, at: Station) -> bool {
        self.mac.rdc != Rdc::AlwaysOn && self.stations[usize::from(at)].duty().train.more
    }

    /// Sends at once: the neighbour is awake, and the channel was just in use.
    pub(in crate::mac) fn continue_burst(&mut self, around: &mut EventContext<'_>, at: Station) {
        let duty = self.stations[usize::from(at)].duty();
        duty.train = Train { receiver_awake: true, ..Train::default() };
        self.wait(around, at, Step::Preparing, self.mac.load);
    }

    fn end_train(&mut self, around: &mut EventContext<'_>, at: Station, config: &ContikiMac, outcome: Outcome) {
        self.sleep(at);
        let station = &mut self.stations[usize::from(at)];
        let to = station.frame().to;
        let duty = station.duty();
        if config.with_phase_optimization && to != BROADCAST && !duty.train.receiver_awake {
            duty.phases.update(config, to, duty.train.strobe, outcome, around.scheduler.now());
        }
        self.end(around, at, outcome);
    }

    fn announce(&mut self, around: &mut EventContext<'_>, at: Station, config: &ContikiMac) {
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
    fn longest(&self, config: &ContikiMac, to: Station) -> std::time::Duration {
        if (self.known_receiver || self.receiver_awake) && to != BROADCAST {
            config.max_phase_strobe_time.min(config.strobe_time())
        } else {
            config.strobe_time()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    const GUARD: Duration = Duration::from_millis(16);

    fn exact() -> (ContikiMac, Clock) {
        let config = ContikiMac { clock_drift_ppm: 0, ..ContikiMac::contiki27() };
        (config, Clock { first: Instant::from_millis(40), cycle: config.cycle_time })
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn checks_are_a_cycle_apart() {
        let (_, clock) = exact();
        assert_eq!(clock.check_after(at(0)), at(40));
        assert_eq!(clock.check_after(at(39)), at(40));
        assert_eq!(clock.check_after(at(40)), at(165));
        assert_eq!(clock.check_after(at(1_000_039)), at(1_000_040));
    }

    #[test]
    fn clocks_start_within_a_cycle_and_are_off_by_their_drift_at_most() {
        let config = ContikiMac::contiki27();
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("clock"));
        let clocks: Vec<Clock> = (0..1000).map(|_| Clock::new(&config, &mut stream)).collect();
        assert!(clocks.iter().all(|clock| clock.first < Instant::ZERO + config.cycle_time));
        let off: Vec<u128> = clocks.iter().map(|clock| clock.cycle.as_nanos().abs_diff(125_000_000)).collect();
        // 20 ppm of 125 ms are 2500 ns; the largest of 1000 draws is close to that.
        assert!((2400..=2500).contains(off.iter().max().expect("1000 clocks")));
    }

    #[test]
    fn a_transmission_begins_a_guard_time_before_the_next_expected_check() {
        let (config, clock) = exact();
        let mut phases = Phases::default();
        assert_eq!(phases.begin(7, at(0), &clock, GUARD), None);
        phases.update(&config, 7, at(1000), Outcome::Sent, at(1003));
        assert_eq!(phases.begin(7, at(1003), &clock, GUARD), Some(at(1125 - 16)));
        assert_eq!(phases.begin(7, at(1109), &clock, GUARD), Some(at(1109)));
        assert_eq!(phases.begin(7, at(1110), &clock, GUARD), Some(at(1250 - 16)));
        assert_eq!(phases.begin(8, at(1003), &clock, GUARD), None);
    }

    #[test]
    fn a_phase_is_forgotten_after_16_misses_or_30_seconds_of_them() {
        let (config, clock) = exact();
        let known = |phases: &Phases| phases.begin(7, at(100_000), &clock, GUARD).is_some();
        let mut phases = Phases::default();
        phases.update(&config, 7, at(1000), Outcome::Sent, at(1003));
        (0..15).for_each(|_| phases.update(&config, 7, at(2000), Outcome::NoAck, at(2003)));
        (0..99).for_each(|_| phases.update(&config, 7, at(2000), Outcome::Busy, at(2003)));
        assert!(known(&phases));
        phases.update(&config, 7, at(3000), Outcome::Sent, at(3003));
        phases.update(&config, 7, at(4000), Outcome::NoAck, at(4003));
        phases.update(&config, 7, at(34_002), Outcome::NoAck, at(34_002));
        assert!(known(&phases));
        phases.update(&config, 7, at(34_003), Outcome::NoAck, at(34_003));
        assert!(!known(&phases));

        phases.update(&config, 7, at(1000), Outcome::Sent, at(1003));
        (0..16).for_each(|_| phases.update(&config, 7, at(2000), Outcome::NoAck, at(2003)));
        assert!(!known(&phases));
    }
}
