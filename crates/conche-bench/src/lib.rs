//! A load generator for CoAP servers, used by `conche bench`.
//!
//! [`run()`] executes a [`Plan`] and returns a [`Report`]; [`compare`](compare::compare) compares
//! two. Requests go through a [`conche_proto::Endpoint`], so the server sees real clients'
//! behaviour.
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
//! # Limits of a source port
//!
//! A message ID must not be reused toward a destination for EXCHANGE_LIFETIME, 247 s (RFC 7252
//! §4.4), so a source port can send 257 messages per second. An endpoint without free IDs continues
//! on another port, as a new client, and keeps the old one until its IDs are free.

mod collector;
pub mod compare;
mod dtls;
mod error;
pub mod kind;
mod oscore;
pub mod plan;
pub mod report;
mod run;
mod schedule;
mod sockets;
mod source_ports;
mod tally;
mod worker;
mod worker_result;

pub use collector::Live;
pub use conche_dtls::ClientCredentials;
pub use error::Error;
pub use kind::Kind;
pub use plan::{Arrivals, Load, Plan, PlanError, Until};
pub use report::Report;
pub use run::run;
