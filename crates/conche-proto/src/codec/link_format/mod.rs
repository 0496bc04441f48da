//! The CoRE link format (RFC 6690), in which a server says what it has: read without a copy, written, and filtered by
//! the arguments of a query.
//!
//! ```
//! use conche_proto::codec::link_format::{Filter, Links};
//!
//! let document = r#"</sensors>;ct=40;title="Sensor Index",</sensors/light>;rt="light-lux core.sen-light";if="sensor""#;
//! let wanted = Filter::new("rt=core.*");
//! let mut found = Links::read(document).filter_map(Result::ok).filter(|link| wanted.selects(link));
//! assert_eq!(found.next().map(|link| link.target()), Some("/sensors/light"));
//! assert!(found.next().is_none());
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `read` | [`Links`]: links and their attributes inside a text that somebody else owns |
//! | `filter` | [`Filter`]: which links an argument of a query asks for |
//! | `write` | [`LinkWriter`]: links to text |

pub(crate) mod filter;
mod read;
mod write;

pub use filter::Filter;
pub use read::{Attribute, Attributes, Link, LinkError, Links, Value};
pub use write::{LinkWriteError, LinkWriter};

#[cfg(test)]
mod tests;
