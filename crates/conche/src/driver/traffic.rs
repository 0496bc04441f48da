//! Every datagram as a `tracing` event, for those who want to see the messages themselves.
//!
//! The target is `conche::message`, the level TRACE. The datagram is a field of its own, as bytes, so that a subscriber can
//! decode it and show it as it likes; `decoded` is for subscribers that print fields as they are.

use std::fmt;

use conche_proto::codec::Message;
use tracing::trace;

use super::Address;

/// A datagram left. It is the `attempt`-th retransmission, or the first copy with 0.
pub(super) fn sent(to: Address, attempt: u8, datagram: &[u8]) {
    trace!(target: "conche::message", peer = %to, attempt, datagram, decoded = %Decoded(datagram), "sent");
}

/// A datagram arrived.
pub(super) fn received(from: Address, datagram: &[u8]) {
    trace!(target: "conche::message", peer = %from, datagram, decoded = %Decoded(datagram), "received");
}

struct Decoded<'a>(&'a [u8]);

impl fmt::Display for Decoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Message::decode(self.0) {
            Ok(message) => message.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
