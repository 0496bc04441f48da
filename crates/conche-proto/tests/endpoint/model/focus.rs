//! The focus of a script: all operations, or those of one role or extension.

#[derive(Debug)]
pub struct Focus {
    pub name: &'static str,
    /// As in [`operate`](super::script::Machine::operate); empty for all.
    operations: &'static [u8],
    pub in_bursts: bool,
    pub in_parts: bool,
    /// The peer table has room for all peers.
    pub has_room: bool,
}

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

/// Further operations: bytes from 0xa0 on, modulo 12.
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
    /// With Q-Block.
    pub const RECEIVE_OF_SET: u8 = 0xf0;
    /// With streaming: eight operations.
    pub const STREAM: u8 = 0xe0;
}

use plain::{CANCEL, JUMP, MILLISECONDS, PING, POSTPONE, RARE, SECONDS, UNREACHABLE, WAKE};

impl Focus {
    pub const ENDPOINT: Self =
        Self { name: "endpoint", operations: &[], in_bursts: false, in_parts: false, has_room: false };

    pub const WITH_ROOM: Self =
        Self { name: "with_room", operations: &[], in_bursts: false, in_parts: false, has_room: true };

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
        in_bursts: false,
        in_parts: false,
        has_room: false,
    };

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
        in_bursts: false,
        in_parts: false,
        has_room: false,
    };

    /// RFC 7959.
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
        in_bursts: false,
        in_parts: false,
        has_room: false,
    };

    /// RFC 7641.
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
        in_bursts: false,
        in_parts: false,
        has_room: false,
    };

    /// RFC 9177.
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
        in_bursts: true,
        in_parts: false,
        has_room: false,
    };

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
            // Mostly continue what is in progress.
            extended::STREAM,
            extended::STREAM + 1,
            extended::STREAM + 2,
            extended::STREAM + 5,
            extended::STREAM + 6,
            extended::STREAM + 7,
        ],
        in_bursts: false,
        in_parts: true,
        has_room: false,
    };

    /// Each is a fuzz target of this name.
    pub const ALL: [Self; 7] =
        [Self::ENDPOINT, Self::SERVER, Self::CLIENT, Self::BLOCKWISE, Self::OBSERVE, Self::Q_BLOCK, Self::STREAMS];

    pub fn operation(&self, byte: u8) -> u8 {
        match self.operations {
            [] => byte,
            operations => operations[usize::from(byte) % operations.len()],
        }
    }
}
