//! Discrete-event network simulation in virtual time, with the `conche-proto` endpoint.
//!
//! ```text
//!              Application (yours)                     Observer (yours, or pcapng)
//!                    │ requests, responses, timers           ▲ sent, delivered, dropped
//!   node ─────> Node: Endpoint ── packet ──> wired: queue ─> rate ─> loss ─> delay ──> next node
//!                    ▲                 └────> mac: queue ─> backoff ─> CCA ─> radio ─> next node
//!                    │                               │
//!                    └──────── scheduler: (time, sequence) ordered events ◄┘
//! ```
//!
//! Feature `serde` deserializes configurations; each type documents its TOML form.
//!
//! A run uses one thread and no clock: topology, hosts and seed determine it on every machine.
//! Replications can run in parallel.
//!
//! # Example
//!
//! Two constant streams share a link, which drops packets that overflow its queue.
//!
//! ```
//! use std::time::Duration;
//! use conche_netsim::host::{Host, Port, Received};
//! use conche_netsim::wired::{DropTail, LinkConfig, Topology};
//! use conche_netsim::{BitRate, NodeId, Simulation};
//!
//! /// Sends 100 packets of 72 bytes, one every 10 ms.
//! struct Source { to: NodeId, left: u32 }
//!
//! impl Host for Source {
//!     type Timer = ();
//!     fn start(&mut self, port: &mut Port<'_, ()>) {
//!         port.set_timer(Duration::from_millis(10), ());
//!     }
//!     fn timer(&mut self, port: &mut Port<'_, ()>, (): ()) {
//!         port.send(self.to, &[0; 72], None, None);
//!         self.left -= 1;
//!         if self.left > 0 {
//!             port.set_timer(Duration::from_millis(10), ());
//!         }
//!     }
//!     fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
//!     fn wake(&mut self, _: &mut Port<'_, ()>) {}
//! }
//!
//! let mut net = Topology::new();
//! let (a, b, sink) = (net.node("a"), net.node("b"), net.node("sink"));
//! let bottleneck = LinkConfig { rate: Some(BitRate::kbit(80)), queue: DropTail::bytes(1000), ..LinkConfig::default() };
//! net.link("a-b", a, b, LinkConfig::default());
//! net.link("b-sink", b, sink, bottleneck);
//!
//! let mut sim = Simulation::<Source>::new(&net, 1, ())?;
//! sim.attach(a, Source { to: sink, left: 100 })?;
//! sim.attach(b, Source { to: sink, left: 100 })?;
//! sim.attach(sink, Source { to: sink, left: 1 })?;
//! sim.run();
//! let counters = sim.counters();
//! assert_eq!(counters.sent, counters.delivered + counters.dropped);
//! assert!(counters.dropped > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
pub mod host;
mod ids;
pub mod mac;
pub mod mote;
pub mod node;
pub mod packet;
pub mod pcapng;
pub mod radio;
#[cfg(feature = "serde")]
mod read;
pub mod rng;
pub mod routing;
pub mod scheduler;
pub mod sim;
pub mod sixlowpan;
mod timers;
pub mod trace;
pub mod transport;
pub mod units;
pub mod wired;

pub use conche_proto::{Event, Instant, Transmit};
pub use ids::{LinkId, NodeId, PacketId, RadioId};
pub use sim::{ChangeError, Counters, RunEnd, Simulation};
pub use units::BitRate;
