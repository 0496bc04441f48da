//! The CoRE link format (RFC 6690), which lists the resources of a server: reading without a copy,
//! writing, and filtering by query arguments.
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
//! | module | contents |
//! |---|---|
//! | `read` | [`Links`]: links and their attributes in borrowed text |
//! | `filter` | [`Filter`]: selects links by a query argument |
//! | `write` | [`LinkWriter`]: writes links as text |

pub(crate) mod filter;
mod read;
mod write;

pub use filter::Filter;
pub use read::{Attribute, Attributes, Link, LinkError, Links, Value};
pub use write::{LinkWriteError, LinkWriter};

#[cfg(test)]
mod tests;
