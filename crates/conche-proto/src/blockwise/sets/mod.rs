//! Q-Block (RFC 9177): sends the blocks of a body in bursts of MAX_PAYLOADS messages, with one
//! answer per burst. The code calls a burst a set, after MAX_PAYLOADS_SET.
//!
//! ```text
//!  client, Q-Block1:  body ─> Sender ─burst─> … ─2.31─> Sender ─last burst─> … ─> response
//!  server, Q-Block1:  … ─block─> Receiver ─2.31, or 4.08 with missing blocks─> … ─> request
//!  server, Q-Block2:  stored response ─> Sender ─burst─> …, and each requested block
//!  client, Q-Block2:  … ─block─> Receiver ─requests next burst or missing blocks─> … ─> response
//! ```
//!
//! Both roles use a [`Sender`] for an outgoing body and a [`Receiver`] for an incoming one. Both
//! handle numbers and times, independent of the transport.
//!
//! | module | contents |
//! |---|---|
//! | `sender` | [`Sender`]: selects the next block to send |
//! | `receiver` | [`Receiver`]: tracks received and missing blocks, and when to report them |
//! | `client` | [`SetTransfer`]: a client's Q-Block request |

mod client;
mod receiver;
mod sender;

pub(crate) use client::{RequestTag, SetRules, SetStep, SetTransfer, is_about_sets, lists_missing_blocks};
pub(crate) use receiver::{Receiver, Reply, Shape};
pub(crate) use sender::{Follows, Sender};
