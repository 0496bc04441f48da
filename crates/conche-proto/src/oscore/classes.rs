//! Which options are encrypted, and which have to be seen on the way (RFC 8613 §4.1, figure 5).

use crate::codec::OptionNumber;

/// How an option travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Class E: encrypted. So are all options that are not known.
    Inner,
    /// Class U: for those on the way, and not protected.
    Outer,
    /// Encrypted for the other end, and beside that for those on the way.
    Both,
    /// Divided into what is to be seen and what is not (RFC 8613 §4.1.3.3).
    Divided,
    /// Tells that the message is protected already, which it can be once only (RFC 8613 §4.1.3.7).
    Nested,
}

/// The class of an option of a message that is to be protected.
///
/// Max-Age, the block options and No-Response may be outer ones too, where they are put by those on the way, or would be
/// of use to them. This end has its own encrypted.
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

/// An outer option that means something to the end that a message is for. All others were for those on the way, or come
/// from them, and are no part of what was protected (RFC 8613 §8.2 and §8.4, step 1).
pub(super) const fn is_taken_from_outside(number: OptionNumber) -> bool {
    matches!(class(number), Class::Outer | Class::Divided)
}
