//! ContikiMAC (Dunkels: The ContikiMAC Radio Duty Cycling Protocol, SICS T2011:13).
//!
//! Receivers sleep and check the channel periodically, each at its own times. A sender repeats its
//! frame until the receiver has woken up and acknowledges it.
//!
//! ```text
//!   sender    │6 CCAs│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap: ACK│read│
//!   receiver                        ··▼ CCA: busy, on ─────────│▓ frame ▓│▓ ACK ▓│off ····
//!   another                  ·····▼ CCA: busy, on ────────────────────────────── off ····
//! ```
//!
//! A sender that knows when its neighbour wakes up (phase.c) starts a guard time before that, and
//! gives up soon after. Frames that wait for the same neighbour follow in a burst: each announces
//! the next one, so that the receiver stays on.
//!
//! Source: `contikimac.c` and `phase.c` of Contiki 2.7 and 3.0. Divergences:
//!
//! - Broadcasts are not sent in bursts.
//! - A receiver that stays on counts periods of inactivity (fast sleep) but not of silence, which
//!   only saves energy.
//! - Channel checks cost no event while the channel is idle. They are scheduled for the stations
//!   that a strobe train alone reaches above the threshold of clear channel assessment; two trains
//!   that exceed it only together wake none.
//! - The table of phases has room for all neighbours, and rtimers never fire late.
//!
//! | file | contents |
//! |---|---|
//! | `config` | the protocol's times and counts |
//! | `phase` | clocks with drift; wake-up times of neighbours |
//! | `strobe` | the sender |
//! | `power_cycle` | the receiver |

mod config;
mod phase;
mod power_cycle;
mod strobe;

pub use config::ContikiMac;
use phase::{Clock, Phases};
use strobe::Train;

use crate::Instant;
use crate::rng::Stream;

#[derive(Debug)]
pub(in crate::mac) struct DutyCycle {
    clock: Clock,
    phases: Phases,
    train: Train,
    /// When the station detected energy; it has been on since then.
    listening: Option<Instant>,
    check_scheduled: bool,
    /// End of the wait for the next frame of a burst being received (`we_are_receiving_burst`).
    burst_until: Instant,
    /// Latest end of the strobe trains that the station hears.
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
