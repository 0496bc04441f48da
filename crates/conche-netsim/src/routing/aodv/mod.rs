//! AODV for memory-constrained nodes: nst-AODV (Gomez, Salvatella, Alonso, Paradells: Adapting AODV
//! for IEEE 802.15.4 mesh sensor networks, WoWMoM 2006), in the terms of RFC 3561.
//!
//! ```text
//!   origin ══RREQ══> all ══RREQ══> … ══> destination      flooded; leaves routes to the origin behind
//!   origin <──RREP── node <──RREP── … <── destination     along them; leaves routes to the destination behind
//!   origin <──RERR── node ──✗ next hop                    a frame that the MAC could not deliver breaks the link
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | RREQ, RREP and RERR |
//! | [`metric`] | comparison of routes: hop count, or PATH-DR, the product of delivery ratios |
//! | [`node`] | one node's protocol and routes |
//!
//! Omitted from RFC 3561: replies by intermediate nodes, hello messages, local repair, precursor
//! lists (a RERR goes to the packet's origin), and route lifetimes (a route lasts until it breaks).

pub mod message;
pub mod metric;
pub mod node;

pub use message::Message;
pub use metric::{LqiMap, Metric};
pub use node::{Aodv, AodvConfig, Output};
