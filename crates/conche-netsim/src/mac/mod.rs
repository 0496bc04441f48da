//! Medium access: when stations transmit, their reaction to failures, and their queues.
//!
//! ```text
//!   packet ─> queue ─> access: wait ─> attempt: CCA ─> turnaround ─> frame ─> ACK? ──> packet at the next node
//!               │        ^                            │                       │
//!               └─ full: dropped                      └── busy, no ACK ───────┘──> given up: dropped
//! ```
//!
//! A MAC has two parts, which share only [`Outcome`]:
//!
//! - `access` decides on backoff and retries: [`Ieee802154`], [`Contiki27`], [`Contiki30`],
//!   [`Contiki31`], [`TinyOs`], [`BinaryExponential`].
//! - `rdc` transmits a frame, to sleeping receivers repeatedly ([`ContikiMac`]).
//!
//! A packet enters a station's queue when its route uses a radio hop. Hosts with their own routing
//! use [`Port::transmit`](crate::host::Port::transmit).
//!
//! # Example
//!
//! Two nodes in range, with acknowledgments.
//!
//! ```
//! use conche_netsim::mac::{MacConfig, RadioConfig};
//! use conche_netsim::radio::{MediumConfig, Position, Udgm};
//! use conche_netsim::wired::Topology;
//! # use conche_netsim::{Simulation, NodeId, host::{Host, Port, Received}};
//! # struct Greeter(NodeId);
//! # impl Host for Greeter {
//! #     type Timer = ();
//! #     fn start(&mut self, port: &mut Port<'_, ()>) {
//! #         if port.node() != self.0 { port.send(self.0, b"hello", None, None); }
//! #     }
//! #     fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
//! #     fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
//! #     fn wake(&mut self, _: &mut Port<'_, ()>) {}
//! # }
//!
//! let mut net = Topology::new();
//! let (mote, sink) = (net.node("mote"), net.node("sink"));
//! let medium = MediumConfig::Udgm(Udgm { transmission_range_m: 10.0, ..Udgm::default() });
//! let air = net.radio("air", RadioConfig { medium, mac: MacConfig::ieee802154() });
//! net.place(air, sink, Position::metres(0.0, 0.0));
//! net.place(air, mote, Position::metres(6.0, 8.0));
//! net.duplex_hop("mote-sink", air, mote, sink);
//!
//! let mut sim = Simulation::new(&net, 1, ())?;
//! sim.attach(mote, Greeter(sink))?;
//! sim.attach(sink, Greeter(sink))?;
//! sim.run();
//! let counters = sim.radio_counters(air).expect("the network has it");
//! assert_eq!((counters.frames, counters.acknowledgments, counters.succeeded), (1, 1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `config` | parameters and presets |
//! | `access`, `ieee802154`, `contiki`, `tinyos` | channel access |
//! | `queue` | waiting frames, in one queue or one per neighbour |
//! | `station` | a node's interface: queues, steps of an attempt, sequence numbers |
//! | `control`, `fragments` | control broadcasts; fragmented datagrams |
//! | `traffic` | frames entering and leaving a station |
//! | `network` | the stations and their channel, laid out and running |
//! | `rdc` | attempts and receptions, with receivers always on or ContikiMAC |

mod access;
mod config;
mod contiki;
mod control;
mod fragments;
mod ieee802154;
mod network;
mod queue;
mod rdc;
mod station;
mod tinyos;
mod traffic;

pub use access::{AccessConfig, Outcome, TransmitOutcome};
pub use config::{Acknowledgment, AttemptConfig, InterframeSpacing, MacConfig, QueueConfig, RadioConfig};
pub use contiki::{Contiki27, Contiki30, Contiki31};
pub use control::ControlTraffic;
pub use ieee802154::Ieee802154;
pub use network::RadioCounters;
pub use rdc::{ContikiMac, Rdc};
pub use tinyos::{BinaryExponential, TinyOs};

pub(crate) use network::{Layout, RadioNetwork};
