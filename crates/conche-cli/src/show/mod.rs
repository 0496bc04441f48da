//! Messages and payloads as readable text.

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

/// Maximum nesting that is indented. Deeper values are shown unchanged.
const DEEPEST: usize = 32;
