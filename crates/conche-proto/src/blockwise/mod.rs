//! Block-wise transfer (RFC 7959): splits bodies larger than a message into blocks, and reassembles
//! them.
//!
//! ```text
//!  client, Block1:  body ─> Transfer ─block─> … ─2.31─> Transfer ─last block─> … ─> response
//!  client, Block2:  … ─first block─> Transfer ─requests the next─> … ─last block─> joined response
//!  server, Block1:  … ─block─> Assemblies ─2.31─> … ─last block─> joined request ─> application
//!  server, Block2:  application ─> Representations ─first block─> …, and each requested block
//! ```
//!
//! A client's transfer is one exchange, regardless of its number of messages. A server stores
//! [`Assemblies`] and [`Representations`] (RFC 7959 §2.5 and §2.6) within
//! [`Limits`](crate::Limits).
//!
//! Streamed bodies pause between two blocks, until the application has accepted the last one or
//! supplies the next: [`Transfer`] and [`Representation`] use an `Outflow` for this, and
//! `endpoint::streams` does the rest.
//!
//! If both ends support Q-Block (RFC 9177), blocks are sent in [bursts](sets) of Non-confirmable
//! messages.
//!
//! | module | contents |
//! |---|---|
//! | `cut` | splits bodies into blocks |
//! | `contexts` | a bounded table of transfers |
//! | `outflow` | `Outflow`: an outgoing body, complete or supplied in parts |
//! | `assembly` | [`Assemblies`]: incomplete request bodies |
//! | `representations` | [`Representations`]: response bodies, for requests for their blocks |
//! | `transfer` | [`Transfer`]: the client side |
//! | `download` | a partially received response |
//! | [`sets`] | Q-Block: one answer for many blocks |

mod assembly;
mod contexts;
mod cut;
mod download;
mod outflow;
mod representations;
pub(crate) mod sets;
mod transfer;

pub(crate) use assembly::{Assemblies, Part};
pub(crate) use contexts::{Bounds, Claim, Contexts, Full, Key};
pub(crate) use cut::Asked;
pub(crate) use outflow::Missing;
pub(crate) use representations::{Cut, Mark, NoBlock, Representation, Representations};
pub(crate) use transfer::{Rules, Step, Transfer, Trouble};
