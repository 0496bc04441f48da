//! Discrete-event networks in virtual time, with nodes that run the very endpoint of `conche-proto`.
//!
//! ```text
//!              Application (yours)                     Observer (yours, or a pcapng file, or nothing)
//!                    │ requests, responses, timers           ▲ sent, delivered, dropped
//!   node ─────> Node: Endpoint ── packet ──> wired: queue ─> rate ─> loss ─> delay ──> next node
//!                    ▲                 └────> mac: queue ─> backoff ─> CCA ─> radio: medium ─> next node
//!                    │                               │
//!                    └──────── scheduler: (time, sequence) ordered events ◄┘
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`scheduler`], [`heap`], `wheel` | virtual time: what happens next, in a total order |
//! | [`rng`] | one random stream for each seed, entity and purpose |
//! | [`packet`] | packets with their bytes and what is known of their origin |
//! | [`wired`] | links with rate, delay, jitter, loss and queues, and the topology that they form |
//! | [`radio`] | IEEE 802.15.4 media: who hears whom, interference, reception |
//! | [`mac`] | medium access: backoff, attempts, duty cycling, acknowledgments, queues |
//! | [`sixlowpan`] | what a datagram takes on a hop: header compression, fragments |
//! | [`routing`] | the tree of RPL, from the quality of the links; AODV |
//! | [`host`] | what sits on a node and sends and receives packets; its timers |
//! | [`node`] | the host that runs a CoAP endpoint and an application |
//! | [`mote`], [`transport`] | the host that routes by itself; a bulk transfer over TCP |
//! | [`sim`] | the simulation: one network, its hosts and an observer |
//! | [`trace`] | observers: digest, pcapng |
//! | [`units`] | times, rates and sizes as people write them |
//!
//! With the feature `serde` configurations are read from a file; the documentation of each shows how it is written there.
//!
//! A run is one thread and reads no clock: the same topology, hosts and seed give the same events on every machine.
//! Replications run in parallel as separate simulations.
//!
//! # Example
//!
//! Two constant streams meet at one link; what does not fit into its queue is dropped.
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

pub mod heap;
pub mod host;
mod ids;
pub mod mac;
pub mod mote;
pub mod node;
pub mod packet;
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
mod wake_up;
mod wheel;
pub mod wired;

pub use conche_proto::Instant;
pub use ids::{LinkId, NodeId, PacketId, RadioId};
pub use sim::{ChangeError, Counters, Ended, Simulation};
pub use units::BitRate;
