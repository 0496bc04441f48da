//! [`Sender`]: the sender of a received message.

use super::Source;

/// The sender of a received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<P> {
    pub(crate) source: Source<P>,
    /// The keyed hash of its address.
    pub(crate) hash: u64,
    /// Its state, if it has any.
    pub(crate) peer: Option<u32>,
    /// The layer below has validated its address.
    pub(crate) validated: bool,
}
