//! ContikiMAC (Dunkels: The ContikiMAC Radio Duty Cycling Protocol, SICS T2011:13): receivers sleep and check the channel
//! at their own regular times; a sender repeats its frame until the receiver has woken up and acknowledges it.
//!
//! ```text
//!   sender    │6 CCAs│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap│▓ frame ▓│gap: ACK│read│
//!   receiver                        ··▼ CCA: busy, on ─────────│▓ frame ▓│▓ ACK ▓│off ····
//!   another                  ·····▼ CCA: busy, on ────────────────────────────── off ····
//! ```
//!
//! A sender that knows when its neighbour wakes up (phase.c) begins a guard time before that, and soon gives up. Frames that
//! wait for the same neighbour follow in a burst: each tells the receiver to stay on for the next one.
//!
//! Source: `contikimac.c` and `phase.c` of Contiki 2.7 and 3.0. Divergences:
//!
//! - Broadcasts are not sent in bursts.
//! - A receiver that stays on counts its periods of inactivity (fast sleep) but not those of silence, which only saves
//!   energy.
//! - Channel checks cost no event while nothing is on the air. They are scheduled for those whom a train of strobes reaches
//!   above the threshold of clear channel assessment; two trains that only together reach it wake nobody.
//! - The table of phases has room for all neighbours, and rtimers never fire late.
//!
//! | file | what it holds |
//! |---|---|
//! | `config` | the protocol's times and counts |
//! | `phase` | clocks that drift; when neighbours wake up |
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

/// What a station knows and does for its duty cycle.
#[derive(Debug)]
pub(in crate::mac) struct DutyCycle {
    clock: Clock,
    phases: Phases,
    train: Train,
    /// It found energy at this time, and is on since.
    listening: Option<Instant>,
    /// Its next channel check is scheduled.
    check_scheduled: bool,
    /// It is receiving a burst, and waits for its next frame until then (`we_are_receiving_burst`).
    burst_until: Instant,
    /// Someone whom it hears may strobe until then.
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
