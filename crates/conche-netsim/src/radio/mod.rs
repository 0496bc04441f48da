//! IEEE 802.15.4 radio: propagation, interference and reception.
//!
//! ```text
//!                 transmit ──┐                                        ┌──> received, or not
//!   positions ─> path loss ─> neighbours ─> medium: udgm│mrm31│sinr ──┤
//!                 (once)      (once)        per frame and receiver    └──> clear channel assessment
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `phy` | times and sizes of the O-QPSK physical layer |
//! | `power`, `stations` | integer power; positions and nodes of stations |
//! | `neighbours` | links above the interference floor, computed once |
//! | `air` | frames on the channel and their reception |
//! | `medium` | interface of the media |
//! | `udgm`, `mrm31`, `sinr` | the media |
//! | `reception` | packet reception ratio by signal-to-noise ratio |
//! | `quality` | reception ratios of all links |
//! | `fading` | slow changes of links |
//!
//! Propagation takes no time. A synchronised receiver keeps its frame until the frame ends, another
//! captures the receiver, or the station switches to transmission.

mod air;
mod fading;
mod medium;
mod mrm31;
mod neighbours;
pub mod phy;
mod power;
mod quality;
mod reception;
mod sinr;
mod stations;
mod udgm;

pub use fading::Gilbert;
pub use medium::{MediumConfig, RadioError};
pub use mrm31::Mrm31;
pub use power::Power;
pub use quality::{LinkQuality, QualityError};
pub use reception::{ReceptionCurve, cc2420_symbol_error_rate, oqpsk_bit_error_rate};
pub use sinr::{PathLoss, Sinr};
pub use stations::Position;
pub use udgm::Udgm;

pub(crate) use crate::ids::{BROADCAST, Station};
pub(crate) use air::{Air, ReceptionLink};
pub(crate) use medium::{AnyMedium, check};
pub(crate) use stations::StationMap;
