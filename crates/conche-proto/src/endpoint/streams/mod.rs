//! Bodies that pass between the application and the endpoint block by block, for bodies that do not
//! fit into memory or are not complete yet: received and sent, as a client and as a server.
//!
//! ```text
//!  client, receiving: request ──> Block ──fetch_next──> Block ──fetch_next──> … ──> Response
//!  client, sending:   request with the start of its body ──> Wanted ──supply──> Wanted ──supply(last)──> Response
//!  server, receiving: Request ──continue_request──> Part ──continue_request──> … ──> last Part ──> respond
//!  server, sending:   Request ──respond_in_parts──> Wanted ──supply──> … ──supply(last)──> over
//! ```
//!
//! The blocks are the same as those of a complete body. Each is sent in a message that is admitted
//! and answered like any other. The only difference is that the application holds the next block,
//! and keeps no more in memory than it wants to.

mod client;
mod coming;
mod leaving;
mod server;
mod table;

pub(super) use table::Parts;

use thiserror::Error;

use crate::exchange::ExchangeId;
use crate::incoming::RequestId;

/// A body that the application has not supplied completely yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unfinished {
    /// The body of a request sent by this endpoint.
    Request(ExchangeId),
    /// The body of the response to this request.
    Response(RequestId),
}

/// Why a body that was received or sent in parts ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The client has not sent or requested a block for EXCHANGE_LIFETIME.
    Abandoned,
    /// The client started the body again.
    BegunAnew,
    /// There was no room for the state of a late response; the client received 5.03.
    Refused,
    /// The body has more blocks than block numbers, or no block fits into a message.
    TooLarge,
}

impl core::fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Abandoned => "the client has not gone on with the body for too long",
            Self::BegunAnew => "the client began the body anew",
            Self::Refused => "there was no room for its answer",
            Self::TooLarge => "the body has more blocks than can be numbered, or none fits into a message",
        })
    }
}

/// The body does not exist or needs no more data: its exchange is over, it was answered early, or
/// it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("nothing is missing of this body: its exchange is over, or all of it was supplied")]
pub struct NotWanted;
