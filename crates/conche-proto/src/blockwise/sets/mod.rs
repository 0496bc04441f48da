//! Sets: bodies whose blocks go one behind the other, and get one answer for each MAX_PAYLOADS_SET (RFC 9177).
//!
//! ```text
//!  client, Q-Block1:  body ──> Sender ──set──> … ──2.31──> Sender ──last set──> … ──> response
//!  server, Q-Block1:  … ──block──> Receiver ──2.31, or 4.08 and what is missing──> … ──> request ──> application
//!  server, Q-Block2:  kept response ──> Sender ──set──> …, and each block that is asked for
//!  client, Q-Block2:  … ──block──> Receiver ──asks for the next set, or for what is missing──> … ──> response
//! ```
//!
//! Who has the body is a [`Sender`] in either role, who wants it a [`Receiver`]. Both know numbers and times, and nothing of
//! how messages travel.
//!
//! | module | what it holds |
//! |---|---|
//! | `sender` | [`Sender`]: which block leaves next |
//! | `receiver` | [`Receiver`]: what has come, what is missing, and when to say so |
//! | `client` | [`SetTransfer`]: a client's request whose body or response goes in sets |

mod client;
mod receiver;
mod sender;

pub(crate) use client::{RequestTag, SetRules, SetStep, SetTransfer, is_about_sets, lists_missing_blocks};
pub(crate) use receiver::{Patience, Receiver, Reply, Shape};
pub(crate) use sender::{Follows, Sender};
