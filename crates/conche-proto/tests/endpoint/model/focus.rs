//! What scripts are about: all that they can do, or the operations of one role or extension, which then come often enough for
//! a fuzzer to combine them.

/// The operations that a script may choose from.
#[derive(Debug)]
pub struct Focus {
    pub name: &'static str,
    /// As [`operate`](super::script::Machine::operate) reads them; if there are none, all.
    operations: &'static [u8],
    /// Bodies go in sets (RFC 9177), whatever the script draws.
    pub in_sets: bool,
    /// Bodies go block by block between application and endpoint, whatever the script draws.
    pub in_parts: bool,
    /// The table has room for all peers, whatever the script draws.
    pub has_room: bool,
}

/// The operations of RFC 7252, by the byte that chooses them.
mod plain {
    pub const WAKE: u8 = 0;
    pub const MILLISECONDS: u8 = 1;
    pub const SECONDS: u8 = 2;
    pub const JUMP: u8 = 3;
    pub const REQUEST: u8 = 4;
    pub const PING: u8 = 6;
    pub const CANCEL: u8 = 7;
    pub const RESPOND: u8 = 8;
    pub const POSTPONE: u8 = 9;
    pub const RECEIVE_REQUEST: u8 = 10;
    pub const RECEIVE_ANSWER: u8 = 11;
    pub const RECEIVE_BYTES: u8 = 13;
    pub const UNREACHABLE: u8 = 14;
    pub const RARE: u8 = 15;
}

/// Those beyond it: bytes from 0xa0 on, modulo 12.
mod extended {
    const FIRST: u8 = 168;
    pub const SUBSCRIBE: u8 = FIRST;
    pub const SUBSCRIBE_AGAIN: u8 = FIRST + 1;
    pub const OBSERVE: u8 = FIRST + 2;
    pub const NOTIFY: u8 = FIRST + 3;
    pub const DISMISS: u8 = FIRST + 4;
    pub const REQUEST: u8 = FIRST + 5;
    pub const RESPOND: u8 = FIRST + 6;
    pub const RECEIVE_REQUEST: u8 = FIRST + 7;
    pub const RECEIVE_ANSWER: u8 = FIRST + 9;
    /// Where there is Q-Block.
    pub const RECEIVE_OF_SET: u8 = 0xf0;
    /// Where bodies go in parts: eight of them.
    pub const STREAM: u8 = 0xe0;
}

use plain::{CANCEL, JUMP, MILLISECONDS, PING, POSTPONE, RARE, SECONDS, UNREACHABLE, WAKE};

impl Focus {
    /// Everything, in both roles.
    pub const ENDPOINT: Self =
        Self { name: "endpoint", operations: &[], in_sets: false, in_parts: false, has_room: false };

    /// Everything, with a peer table in which no peer makes room for another one.
    pub const WITH_ROOM: Self =
        Self { name: "with_room", operations: &[], in_sets: false, in_parts: false, has_room: true };

    /// Answers requests, and tells observers.
    pub const SERVER: Self = Self {
        name: "server",
        operations: &[
            WAKE,
            MILLISECONDS,
            SECONDS,
            JUMP,
            plain::RESPOND,
            POSTPONE,
            plain::RECEIVE_REQUEST,
            plain::RECEIVE_ANSWER,
            plain::RECEIVE_BYTES,
            UNREACHABLE,
            RARE,
            extended::OBSERVE,
            extended::NOTIFY,
            extended::DISMISS,
            extended::RESPOND,
            extended::RECEIVE_REQUEST,
        ],
        in_sets: false,
        in_parts: false,
        has_room: false,
    };

    /// Asks, observes, and takes what may be an answer.
    pub const CLIENT: Self = Self {
        name: "client",
        operations: &[
            WAKE,
            MILLISECONDS,
            SECONDS,
            JUMP,
            plain::REQUEST,
            PING,
            CANCEL,
            plain::RECEIVE_ANSWER,
            plain::RECEIVE_BYTES,
            UNREACHABLE,
            RARE,
            extended::SUBSCRIBE,
            extended::SUBSCRIBE_AGAIN,
            extended::REQUEST,
            extended::RECEIVE_ANSWER,
        ],
        in_sets: false,
        in_parts: false,
        has_room: false,
    };

    /// Bodies in blocks (RFC 7959), in both roles.
    pub const BLOCKWISE: Self = Self {
        name: "blockwise",
        operations: &[
            WAKE,
            SECONDS,
            CANCEL,
            RARE,
            plain::RECEIVE_ANSWER,
            extended::REQUEST,
            extended::RESPOND,
            extended::RECEIVE_REQUEST,
            extended::RECEIVE_ANSWER,
        ],
        in_sets: false,
        in_parts: false,
        has_room: false,
    };

    /// Observation (RFC 7641), in both roles.
    pub const OBSERVE: Self = Self {
        name: "observe",
        operations: &[
            WAKE,
            MILLISECONDS,
            SECONDS,
            CANCEL,
            plain::RESPOND,
            plain::RECEIVE_ANSWER,
            UNREACHABLE,
            extended::SUBSCRIBE,
            extended::SUBSCRIBE_AGAIN,
            extended::OBSERVE,
            extended::NOTIFY,
            extended::DISMISS,
            extended::RECEIVE_REQUEST,
            extended::RECEIVE_ANSWER,
        ],
        in_sets: false,
        in_parts: false,
        has_room: false,
    };

    /// Bodies in sets (RFC 9177), in both roles.
    pub const Q_BLOCK: Self = Self {
        name: "q_block",
        operations: &[
            WAKE,
            MILLISECONDS,
            SECONDS,
            CANCEL,
            RARE,
            plain::RECEIVE_ANSWER,
            extended::REQUEST,
            extended::RESPOND,
            extended::RECEIVE_REQUEST,
            extended::RECEIVE_ANSWER,
            extended::RECEIVE_OF_SET,
            extended::RECEIVE_OF_SET,
            extended::RECEIVE_OF_SET,
            extended::RECEIVE_OF_SET,
            extended::SUBSCRIBE,
            extended::SUBSCRIBE_AGAIN,
            extended::OBSERVE,
            extended::NOTIFY,
            extended::NOTIFY,
            extended::RECEIVE_OF_SET,
        ],
        in_sets: true,
        in_parts: false,
        has_room: false,
    };

    /// Bodies that go block by block between application and endpoint, in both roles.
    pub const STREAMS: Self = Self {
        name: "streams",
        operations: &[
            WAKE,
            MILLISECONDS,
            SECONDS,
            CANCEL,
            plain::RESPOND,
            POSTPONE,
            UNREACHABLE,
            plain::RECEIVE_ANSWER,
            extended::RECEIVE_REQUEST,
            extended::RECEIVE_ANSWER,
            extended::STREAM,
            extended::STREAM + 1,
            extended::STREAM + 2,
            extended::STREAM + 3,
            extended::STREAM + 4,
            extended::STREAM + 5,
            extended::STREAM + 6,
            extended::STREAM + 7,
            // Most of the time what is under way goes on.
            extended::STREAM,
            extended::STREAM + 1,
            extended::STREAM + 2,
            extended::STREAM + 5,
            extended::STREAM + 6,
            extended::STREAM + 7,
        ],
        in_sets: false,
        in_parts: true,
        has_room: false,
    };

    /// Each is a fuzz target of its name.
    pub const ALL: [Self; 7] =
        [Self::ENDPOINT, Self::SERVER, Self::CLIENT, Self::BLOCKWISE, Self::OBSERVE, Self::Q_BLOCK, Self::STREAMS];

    /// The operation that a byte of a script chooses.
    pub fn operation(&self, byte: u8) -> u8 {
        match self.operations {
            [] => byte,
            operations => operations[usize::from(byte) % operations.len()],
        }
    }
}
