//! Classes of options: encrypted, or visible to proxies (RFC 8613 §4.1, figure 5).

use crate::codec::OptionNumber;

/// The protection of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Class E: encrypted; the class of all unknown options.
    Inner,
    /// Class U: visible to proxies, not protected.
    Outer,
    /// Encrypted for the other end, and also visible to proxies.
    Both,
    /// Split into a visible and an encrypted part (RFC 8613 §4.1.3.3).
    Divided,
    /// Indicates a protected message, which cannot be protected again (RFC 8613 §4.1.3.7).
    Nested,
}

/// Returns the class of an option of a message to be protected.
///
/// Max-Age, the block options and No-Response may also be outer options, set by or intended for
/// proxies. This endpoint always encrypts its own.
pub(super) const fn class(number: OptionNumber) -> Class {
    match number {
        OptionNumber::OBSERVE => Class::Both,
        OptionNumber::OSCORE => Class::Nested,
        OptionNumber::PROXY_URI => Class::Divided,
        // Hop-Limit: RFC 8768 §6.
        OptionNumber::URI_HOST | OptionNumber::URI_PORT | OptionNumber::PROXY_SCHEME | OptionNumber::HOP_LIMIT => {
            Class::Outer
        }
        _ => Class::Inner,
    }
}

/// Returns `true` for outer options that concern the recipient. All others are set by or intended
/// for proxies and are not part of the protected message (RFC 8613 §8.2 and §8.4, step 1).
pub(super) const fn is_taken_from_outside(number: OptionNumber) -> bool {
    matches!(class(number), Class::Outer | Class::Divided)
}
