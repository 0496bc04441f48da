//! Bodies that go between application and endpoint block by block, for those that do not fit into memory or are not known
//! yet: in and out, for client and server.
//!
//! ```text
//!  client, in:   request ──> Block ──fetch_next──> Block ──fetch_next──> … ──> Response
//!  client, out:  request, its body a beginning ──> Wanted ──supply──> Wanted ──supply(last)──> Response
//!  server, in:   Request ──continue_request──> Part ──continue_request──> … ──> Part, the last ──> respond
//!  server, out:  Request ──respond_in_parts──> Wanted ──supply──> … ──supply(last)──> over
//! ```
//!
//! What leaves is what a whole body would be cut into, one block after the other, each of them a message that is admitted
//! and answered like any other. What differs is who has the next one: the application, which has no more in memory than
//! it wants to.

mod client;
mod coming;
mod leaving;
mod server;
mod table;

pub(super) use table::Parts;

use thiserror::Error;

use crate::exchange::ExchangeId;
use crate::incoming::RequestId;

/// A body of which not all was handed over yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unfinished {
    /// Of a request of ours.
    Request(ExchangeId),
    /// Of the response to this request.
    Response(RequestId),
}

/// Why a body that came or left in parts is over before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The client has sent no block, or asked for none, for EXCHANGE_LIFETIME.
    Abandoned,
    /// The client began anew.
    BegunAnew,
    /// There was no room for what a late answer needs: it got 5.03.
    Refused,
    /// The body has more blocks than can be numbered, or none fits into a message.
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

/// There is no such body, or nothing of it is missing any more: it is over, or was answered early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("nothing is missing of this body: its exchange is over, or all of it was supplied")]
pub struct NotWanted;
