//! [`Track`]: what the checker knows of an exchange.

use conche_proto::Instant;
use conche_proto::codec::{Code, MessageId, Token, Type};

use super::Address;

/// One exchange as seen from outside.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) to: Address,
    pub(super) ends_by: Instant,
    pub(super) sent: Vec<Instant>,
    /// Copies of messages that it has had the answer to, and went on: it takes several.
    pub(super) before: usize,
    pub(super) first: Option<Sent>,
    pub(super) acknowledged: bool,
    /// An Empty ACK came, and the endpoint may have given up waiting for another one though it did not believe it.
    pub(super) doubtful: bool,
    /// It has something else to send: the next copy or, if the last was acknowledged, another message may be that.
    pub(super) superseded: bool,
    /// The endpoint opened it by itself and tells nothing of it: a notification, or a registration once more.
    pub(super) own: bool,
    pub(super) ended: bool,
}

impl Track {
    pub(super) fn new(to: Address, ends_by: Instant) -> Self {
        Self {
            to,
            ends_by,
            sent: Vec::new(),
            before: 0,
            first: None,
            acknowledged: false,
            doubtful: false,
            superseded: false,
            own: false,
            ended: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) ty: Type,
    pub(super) code: Code,
    pub(super) id: MessageId,
    pub(super) token: Token,
}
