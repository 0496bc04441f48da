//! ContikiMAC's times and counts, with the names of `contikimac.c`.

use std::time::Duration;

/// ContikiMAC.
///
/// Receivers wake by clear channel assessment, so a link below its threshold carries nothing. Times
/// are multiples of the rtimer tick of 1/32768 s.
///
/// In TOML, `check_rate_hz` gives the cycle time.
///
/// ```toml
/// check_rate_hz = 16
/// with_phase_optimization = false
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContikiMac {
    /// CYCLE_TIME: interval of channel checks. Default: 125 ms (8 Hz).
    pub cycle_time: Duration,
    /// CCA_COUNT_MAX: assessments in a channel check. Default: 2.
    pub cca_count_max: u8,
    /// CCA_COUNT_MAX_TX: assessments before a transmission. Default: 6.
    pub cca_count_max_tx: u8,
    /// CCA_CHECK_TIME: duration of an assessment. Default: 0.122 ms.
    pub cca_check_time: Duration,
    /// CCA_SLEEP_TIME: time between two assessments. Default: 0.488 ms.
    pub cca_sleep_time: Duration,
    /// LISTEN_TIME_AFTER_PACKET_DETECTED: maximum listening time after detecting energy. Default:
    /// 12.5 ms.
    pub listen_time_after_packet_detected: Duration,
    /// MAX_NONACTIVITY_PERIODS: maximum periods (assessment and sleep) without a frame until the
    /// receiver sleeps. Default: 10.
    pub max_nonactivity_periods: u8,
    /// INTER_PACKET_DEADLINE: maximum wait for the next frame of a burst. Default: 31 ms.
    pub inter_packet_deadline: Duration,
    /// INTER_PACKET_INTERVAL: time from a strobe's end to the check for an acknowledgment. Default:
    /// 0.397 ms.
    pub inter_packet_interval: Duration,
    /// AFTER_ACK_DETECTECT_WAIT_TIME: time until a detected acknowledgment can be read. Default:
    /// 0.641 ms.
    pub after_ack_detected_wait_time: Duration,
    /// MAX_PHASE_STROBE_TIME: strobe time for a neighbour with a known phase. Default: 16.7 ms.
    pub max_phase_strobe_time: Duration,
    /// WITH_PHASE_OPTIMIZATION: senders learn when neighbours wake up. Default: yes.
    pub with_phase_optimization: bool,
    /// Frames for one neighbour follow in a burst (`qsend_list`). Default: yes, as in every
    /// Contiki. Otherwise each waits for the next wake-up, in 2.7 after a time base.
    pub with_bursts: bool,
    /// MAX_NOACKS: unacknowledged transmissions until a phase is forgotten. Default: 16.
    pub max_noacks: u8,
    /// MAX_NOACKS_TIME: a phase is also forgotten if transmissions this far apart, and all in
    /// between, are unacknowledged. Default: 30 s.
    pub max_noacks_time: Duration,
    /// ContikiMAC header in octets.
    pub header_octets: u8,
    /// SHORTEST_PACKET_SIZE: minimum PSDU after padding, so that no frame fits between assessments.
    pub shortest_packet_size: u8,
    /// Maximum clock drift in parts per million, uniform over stations. Default: 20, as of watch
    /// crystals.
    pub clock_drift_ppm: u32,
}

const fn ticks(ticks: u64) -> Duration {
    Duration::from_nanos((ticks * 1_000_000_000) >> 15)
}

const RTIMER_ARCH_SECOND: u64 = 32_768;

impl ContikiMac {
    /// Returns Contiki 2.7's values: a header of two octets (omitted in the Tmote Sky's IPv6
    /// configuration) and a minimum frame of 43.
    #[must_use]
    pub const fn contiki27() -> Self {
        Self {
            cycle_time: ticks(RTIMER_ARCH_SECOND / 8),
            cca_count_max: 2,
            cca_count_max_tx: 6,
            cca_check_time: ticks(RTIMER_ARCH_SECOND / 8192),
            cca_sleep_time: ticks(RTIMER_ARCH_SECOND / 2000),
            listen_time_after_packet_detected: ticks(RTIMER_ARCH_SECOND / 80),
            max_nonactivity_periods: 10,
            inter_packet_deadline: ticks(RTIMER_ARCH_SECOND / 32),
            inter_packet_interval: ticks(RTIMER_ARCH_SECOND / 2500),
            after_ack_detected_wait_time: ticks(RTIMER_ARCH_SECOND / 1500),
            max_phase_strobe_time: ticks(RTIMER_ARCH_SECOND / 60),
            with_phase_optimization: true,
            with_bursts: true,
            max_noacks: 16,
            max_noacks_time: Duration::from_secs(30),
            header_octets: 2,
            shortest_packet_size: 43,
            clock_drift_ppm: 20,
        }
    }

    /// Returns Contiki 3.0's values: as 2.7, without header and padding, which its framer omits by
    /// default.
    #[must_use]
    pub const fn contiki30() -> Self {
        Self { header_octets: 0, shortest_packet_size: 0, ..Self::contiki27() }
    }

    /// Returns this configuration with `hertz` channel checks per second.
    ///
    /// # Panics
    /// If the rate is zero.
    #[must_use]
    pub const fn channel_check_rate(self, hertz: u32) -> Self {
        assert!(hertz > 0, "a receiver that never wakes up receives nothing");
        Self { cycle_time: ticks(RTIMER_ARCH_SECOND / hertz as u64), ..self }
    }

    pub(super) fn period(&self) -> Duration {
        self.cca_check_time + self.cca_sleep_time
    }

    fn check_time(&self) -> Duration {
        self.period() * u32::from(self.cca_count_max)
    }

    fn check_time_tx(&self) -> Duration {
        self.period() * u32::from(self.cca_count_max_tx)
    }

    /// Returns STROBE_TIME, `CYCLE_TIME + 2 * CHECK_TIME`: for broadcasts and unknown phases.
    #[must_use]
    pub fn strobe_time(&self) -> Duration {
        self.cycle_time + 2 * self.check_time()
    }

    /// Returns GUARD_TIME, `10 * CHECK_TIME + CHECK_TIME_TX`: a sender's lead before the expected
    /// wake-up.
    #[must_use]
    pub fn guard_time(&self) -> Duration {
        10 * self.check_time() + self.check_time_tx()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_ms(time: Duration, expected: f64) {
        let ms = time.as_secs_f64() * 1e3;
        assert!((ms - expected).abs() < 0.001, "{ms:.4} ms instead of {expected:.4} ms");
    }

    #[test]
    fn derived_times_are_those_of_the_source_in_rtimer_ticks() {
        let config = ContikiMac::contiki27();
        let tick_ms = 1e3 / 32_768.0;
        assert_ms(config.period(), 20.0 * tick_ms);
        assert_ms(config.check_time_tx(), 120.0 * tick_ms);
        assert_ms(config.strobe_time(), 4176.0 * tick_ms);
        assert_ms(config.guard_time(), 520.0 * tick_ms);
        assert_ms(config.channel_check_rate(16).cycle_time, 62.5);
    }
}
