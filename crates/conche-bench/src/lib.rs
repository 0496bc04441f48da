//! A load generator for CoAP servers: what `conche bench` runs.
//!
//! A [`Plan`] says what to ask and how hard; [`run()`] does so and answers with a [`Report`]; [`compare`](compare::compare) tells two
//! of them apart. Every request is one of a [`conche_proto::Endpoint`], with its tokens, message IDs, retransmissions and congestion
//! control: a server sees what real clients would do, only more of it.
//!
//! ```no_run
//! use conche_bench::{Kind, Plan, run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let uri = "coap://192.0.2.1/temperature".parse()?;
//! let mut plan = Plan::new("192.0.2.1:5683".parse()?, vec![Kind::get(&uri)?]);
//! plan.endpoints = 100;
//! let report = run(&plan, &Default::default(), &mut |_| {})?;
//! println!("{:.0} requests a second", report.requests_per_s);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | what is asked of whom, how often and for how long |
//! | [`kind`] | the requests |
//! | `schedule` | when each request is due |
//! | `lanes` | source ports, and that none uses a message ID twice within EXCHANGE_LIFETIME |
//! | `sockets` | datagrams in batches, and exact timers |
//! | `protecting` | contexts of OSCORE |
//! | `secured` | sessions of DTLS, one for each lane |
//! | `worker` | one thread: an endpoint, its sockets, its share of the load |
//! | `gather` | what threads tell of each interval, and who watches |
//! | `tally` | what is counted and measured |
//! | `told` | what a thread tells of it |
//! | [`report`] | the result, as a program reads it |
//! | [`compare`] | two results as ratios with their intervals |
//!
//! # What one source port can do
//!
//! A message ID must not be used again for EXCHANGE_LIFETIME, 247 s, toward the same destination (RFC 7252 §4.4). So one source port
//! has no more than some 65 000 messages in that time, or 257 a second. Faster loads need more ports: an endpoint whose IDs are used
//! up goes on from another one, which to the server is a new client. Its old port is kept until its IDs are free again.

pub mod compare;
mod error;
mod gather;
pub mod kind;
mod lanes;
pub mod plan;
mod protecting;
pub mod report;
mod run;
mod schedule;
mod secured;
mod sockets;
mod tally;
mod told;
mod usage;
mod worker;

pub use conche_dtls::ClientCredentials;
pub use error::Error;
pub use gather::Live;
pub use kind::Kind;
pub use plan::{Arrivals, Load, Plan, PlanError, Until};
pub use report::Report;
pub use run::run;
