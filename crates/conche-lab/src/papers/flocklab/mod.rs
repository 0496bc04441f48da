//! FlockLab as ETFA'14 and ComMag'16 used it: 30 motes behind a border router, and a host in the Internet.
//!
//! ```text
//!   server ── mote ┐
//!   server ── mote ┼ ~ ~ ~ ~ ~ ~ border router ══SLIP══ cloud
//!      …       …   ┘  802.15.4                           clients
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `measured` | positions and packet reception ratios, as published |
//! | `links` | signal-to-noise ratios between all motes that agree with what was measured |
//! | `testbed` | the parameters, and the network that they give |

mod links;
mod measured;
mod testbed;

pub use testbed::{Contiki, ContikiMac, Fading, Metric, Network, Testbed};
