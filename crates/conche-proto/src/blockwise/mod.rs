//! Block-wise transfer (RFC 7959): bodies that are larger than a message, cut into blocks and joined again.
//!
//! ```text
//!  client, Block1:  body ──> Transfer ──block──> … ──2.31──> Transfer ──last block──> … ──> response
//!  client, Block2:  … ──first block──> Transfer ──asks for the next──> … ──last block──> joined response
//!  server, Block1:  … ──block──> Assemblies ──2.31──> … ──last block──> joined request ──> application
//!  server, Block2:  application ──> Representations ──first block──> …, and each block that is asked for
//! ```
//!
//! A client's transfer is one exchange, however many messages it takes; a server's [`Assemblies`] and
//! [`Representations`] are what RFC 7959 §2.5 and §2.6 leave it to keep, within [`Limits`](crate::Limits).
//!
//! Bodies that are not to be in memory as a whole pause between two blocks, until the application has taken the last one or
//! supplies the next: [`Transfer`] and [`Representation`] have an `Outflow` for that, and `endpoint::streams` the rest.
//!
//! Where both ends want it, blocks go in [sets] of Non-confirmable messages instead (Q-Block, RFC 9177).
//!
//! | module | what it holds |
//! |---|---|
//! | `cut` | which part of a body goes into a block |
//! | `contexts` | a bounded table of what a peer's blocks belong to |
//! | `outflow` | `Outflow`: a body that leaves, all of which is there or not yet |
//! | `assembly` | [`Assemblies`]: request bodies that are not complete yet |
//! | `representations` | [`Representations`]: response bodies of which blocks may be asked for |
//! | `transfer` | [`Transfer`]: the client's side |
//! | `download` | the response of a transfer, as far as it has come |
//! | [`sets`] | the same with one answer for many blocks |

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
