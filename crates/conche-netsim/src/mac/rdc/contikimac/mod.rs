//! ContikiMAC (Dunkels: The ContikiMAC Radio Duty Cycling Protocol, SICS T2011:13).
//!
//! Receivers sleep and check the channel periodically, each at its own times. Senders repeat frames
//! until acknowledged.
//!
//! ```text
//!   sender    │6 CCAs│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap: ACK│read│
//!   receiver                        ··▼ CCA: busy, on ─────────│▓ frame ▓│▓ ACK ▓│off ····
//!   another                  ·····▼ CCA: busy, on ────────────────────────────── off ····
//! ```
//!
//! Knowing its neighbour's phase (phase.c), a sender starts a guard time before the wake-up, and
//! gives up soon after. Frames for the same neighbour follow in a burst: each announces the next,
//! to keep the receiver on.
//!
//! Source: `contikimac.c` and `phase.c` of Contiki 2.7 and 3.0. Divergences:
//!
//! - Broadcasts are not sent in bursts.
//! - Fast sleep counts periods of inactivity but not of silence, which only saves energy.
//! - Checks cost no event on an idle channel: they are scheduled for stations that one strobe train
//!   reaches above the assessment threshold; two trains above it only together wake none.
//! - The phase table has room for all neighbours, and rtimers never fire late.
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
    /// When the station detected energy and stayed on.
    listening: Option<Instant>,
    check_scheduled: bool,
    /// End of the wait for the burst's next frame (`we_are_receiving_burst`).
    burst_until: Instant,
    /// Latest end of the strobe trains heard.
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
