//! Encodes and decodes messages (RFC 7252 §3) without allocation.
//!
//! [`Message`] is a checked view of a datagram, and [`Encoder`] writes into the caller's buffer.
//! The [`Content`] of a message is independent of the transport; type and message ID are specific
//! to UDP. The owned types share their bytes: [`Body`] is an outgoing message, [`OwnedMessage`] a
//! received one, in a [`MessagePool`] if they are many.
//!
//! ```
//! use conche_proto::codec::{Code, Encoder, Message, MessageId, OptionNumber, Token, Type};
//!
//! let mut datagram = [0; 64];
//! let token = Token::from(*b"8 bytes!");
//! let length = Encoder::new(&mut datagram, Type::Confirmable, Code::GET, MessageId(0x1a2b), &token)?
//!     .option(OptionNumber::URI_PATH, b"test")?
//!     .finish();
//!
//! let message = Message::decode(&datagram[..length])?;
//! assert_eq!(message.code(), Code::GET);
//! assert_eq!(message.option(OptionNumber::URI_PATH), Some(&b"test"[..]));
//! assert_eq!(message.to_string(), "CON GET [0x1a2b] token=3820627974657321 Uri-Path=test");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod body;
mod code;
mod content;
mod content_format;
mod display;
mod encoder;
pub mod link_format;
mod message;
mod option;
mod token;
mod value;

pub use bytes::Bytes;

pub use block::{BadBlock, Block, BlockSize};
pub(crate) use block::{decode_missing_blocks, encode_missing_blocks};
pub(crate) use body::JoinedBody;
pub use body::{Body, BodyBuilder, BuildError};
#[cfg(feature = "oscore")]
pub(crate) use body::{content_length, write_content};
pub use code::Code;
pub use content::{Content, Options, RawOption, Values, encode_path, encode_query};
pub use content_format::ContentFormat;
pub use display::{Escaped, Hexadecimal};
pub(crate) use encoder::{BLOCK_BYTES, MARKER_BYTES, OBSERVE_BYTES, Overhead, SIZE_BYTES, encode_to_vec};
pub use encoder::{EncodeError, Encoder, encode_empty};
pub use message::{DecodeError, DecodeErrorKind, Header, Message, MessageId, MessagePool, OwnedMessage, Type};
pub use option::{MAX_OPTION_LENGTH, OptionDefault, OptionFormat, OptionNumber, OptionSpec, OptionUse, OscoreClass};
pub use token::Token;
pub use value::{NoResponse, UintBytes, decode_uint, encode_uint};
pub(crate) use value::{Order, REGISTER};

#[cfg(test)]
mod tests;
