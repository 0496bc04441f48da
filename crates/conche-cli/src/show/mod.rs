//! Messages and payloads as a person reads them on a terminal.

mod cbor;
mod hex;
mod json;
mod option;
mod payload;
mod source;
mod terminal;

pub use hex::hexadecimal;
pub use option::value as option_value;
pub use payload::{pretty as pretty_payload, summary as payload_summary};
pub use source::place;
pub use terminal::{colour_verdicts, escape, escape_lines, fitted, keep_words, note, table};

/// Levels of nesting that are indented at most. What a peer nests deeper is shown as it is.
const DEEPEST: usize = 32;
