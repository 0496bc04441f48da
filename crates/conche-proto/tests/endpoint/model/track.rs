//! [`Track`]: the checker's state of an exchange.

use conche_proto::Instant;
use conche_proto::codec::{Code, MessageId, Token, Type};

use super::Address;

#[derive(Debug)]
pub(super) struct Track {
    pub(super) to: Address,
    pub(super) ends_by: Instant,
    pub(super) sent: Vec<Instant>,
    /// Of earlier, answered messages.
    pub(super) before: usize,
    pub(super) first: Option<Sent>,
    pub(super) acknowledged: bool,
    /// An Empty ACK arrived, and the endpoint may have stopped waiting for another one although it
    /// did not trust this one.
    pub(super) doubtful: bool,
    /// The next transmission, or another message after an acknowledgement, may carry the new
    /// content.
    pub(super) superseded: bool,
    /// The endpoint opened it without a report: a notification, or a repeated registration.
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
