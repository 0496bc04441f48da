//! IEEE 802.15.4 radio: who hears whom, what signals do to each other, and what is received.
//!
//! ```text
//!                 transmit ──┐                                        ┌──> received, or not
//!   positions ─> path loss ─> neighbours ─> medium: udgm│mrm31│sinr ──┤
//!                 (once)      (once)        per frame and receiver    └──> clear channel assessment
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `phy` | times and sizes of the O-QPSK physical layer |
//! | `power`, `position`, `places` | integer power; where stations stand, and whose they are |
//! | `neighbours` | the links above the interference floor, computed once |
//! | `air` | which frames are on the air and what each receiver makes of them |
//! | `layout` | a network in the making: stations and their places |
//! | `medium` | what the three media have in common |
//! | `udgm`, `mrm31`, `sinr` | the media |
//! | `reception`, `remembered` | packet reception ratio by signal-to-noise ratio, and what was asked before |
//! | `fading` | slow changes of links |
//!
//! Propagation takes no time. A receiver that has synchronised with a frame keeps it until it ends, the station begins to
//! switch to transmission, or the medium lets another frame take it over. What [`mac`](crate::mac) adds is when to
//! transmit.

mod air;
mod fading;
mod layout;
mod medium;
mod mrm31;
mod neighbours;
pub mod phy;
mod places;
mod position;
mod power;
mod reception;
mod remembered;
mod sinr;
mod udgm;

pub use fading::Gilbert;
pub use medium::{MediumConfig, RadioError};
pub use mrm31::Mrm31;
pub use position::Position;
pub use power::Power;
pub use reception::{ReceptionCurve, cc2420_symbol_error_rate, oqpsk_bit_error_rate};
pub use sinr::{PathLoss, Sinr};
pub use udgm::Udgm;

pub(crate) use air::{Air, Via};
pub(crate) use layout::Layout;
pub(crate) use medium::check;
pub(crate) use neighbours::{BROADCAST, Station};
pub(crate) use places::Places;
