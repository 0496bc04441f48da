//! RFC 7252 by requirement: sections 4 and 5. The IDs are those of
//! `docs/compliance/requirements.json`.

mod congestion;
mod deduplication;
mod errors;
mod matching;
mod message_ids;
mod options;
mod properties;
mod responses;
mod retransmission;
mod size;
mod tokens;
