//! The registry of options: format, length, repeatability, default (RFC 7252 Table 4 and later
//! RFCs).

use core::ops::RangeInclusive;

use super::{Code, OptionNumber};

/// The definition of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The name: `Uri-Path`.
    pub name: &'static str,
    /// The format of the value.
    pub format: OptionFormat,
    /// The allowed lengths of the value, in bytes.
    pub length: RangeInclusive<u16>,
    /// The option may occur more than once.
    pub repeatable: bool,
    /// The value that applies if the option is absent.
    pub default: OptionDefault,
    /// The messages that may have the option.
    pub used_in: OptionUse,
    /// The number of the RFC that defines the option.
    pub rfc: u16,
}

impl OptionSpec {
    /// Returns `true` if a value of `length` bytes is in the defined range (RFC 7252 §5.4.3).
    #[must_use]
    #[inline]
    pub fn allows_length(&self, length: usize) -> bool {
        (usize::from(*self.length.start())..=usize::from(*self.length.end())).contains(&length)
    }
}

/// The format of an option value (RFC 7252 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionFormat {
    /// A zero-length sequence.
    Empty,
    /// An opaque sequence of bytes.
    Opaque,
    /// A non-negative integer, big-endian.
    Uint,
    /// UTF-8 in Net-Unicode form.
    String,
}

/// The value that applies if an option is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionDefault {
    /// No default.
    None,
    /// A number.
    Uint(u32),
    /// The address or port to which the request was sent (RFC 7252 §5.10.1).
    Destination,
}

/// The messages that may have an option; in others it counts as unrecognised (RFC 7252 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionUse {
    /// Requests only.
    Requests,
    /// Responses only.
    Responses,
    /// Requests and responses.
    Both,
}

impl OptionUse {
    /// Returns `true` if the option is defined for a message with this code. Also `true` for
    /// messages that are neither requests nor responses, which are rejected regardless of their
    /// options.
    #[must_use]
    pub const fn includes(self, code: Code) -> bool {
        match self {
            Self::Requests => !code.is_response(),
            Self::Responses => !code.is_request(),
            Self::Both => true,
        }
    }
}

macro_rules! registry {
    ($($constant:ident = $number:literal, $name:literal, $format:ident, $length:expr, $repeatable:literal,
        $default:expr, $used_in:ident, RFC $rfc:literal;)*) => {
        impl OptionNumber {
            $(
                #[doc = concat!($name, " (RFC ", $rfc, ").")]
                pub const $constant: Self = Self($number);
            )*

            /// Returns the definition of this option; `None` for an unknown number.
            #[must_use]
            pub const fn spec(self) -> Option<&'static OptionSpec> {
                match self {
                    $(Self::$constant => {
                        const SPEC: &OptionSpec = &OptionSpec {
                            name: $name,
                            format: OptionFormat::$format,
                            length: $length,
                            repeatable: $repeatable,
                            default: $default,
                            used_in: OptionUse::$used_in,
                            rfc: $rfc,
                        };
                        Some(SPEC)
                    })*
                    _ => None,
                }
            }
        }
    };
}

const NONE: OptionDefault = OptionDefault::None;
const DESTINATION: OptionDefault = OptionDefault::Destination;

registry! {
    IF_MATCH = 1, "If-Match", Opaque, 0..=8, true, NONE, Requests, RFC 7252;
    URI_HOST = 3, "Uri-Host", String, 1..=255, false, DESTINATION, Requests, RFC 7252;
    ETAG = 4, "ETag", Opaque, 1..=8, true, NONE, Both, RFC 7252;
    IF_NONE_MATCH = 5, "If-None-Match", Empty, 0..=0, false, NONE, Requests, RFC 7252;
    OBSERVE = 6, "Observe", Uint, 0..=3, false, NONE, Both, RFC 7641;
    URI_PORT = 7, "Uri-Port", Uint, 0..=2, false, DESTINATION, Requests, RFC 7252;
    LOCATION_PATH = 8, "Location-Path", String, 0..=255, true, NONE, Responses, RFC 7252;
    OSCORE = 9, "OSCORE", Opaque, 0..=255, false, NONE, Both, RFC 8613;
    URI_PATH = 11, "Uri-Path", String, 0..=255, true, NONE, Requests, RFC 7252;
    CONTENT_FORMAT = 12, "Content-Format", Uint, 0..=2, false, NONE, Both, RFC 7252;
    MAX_AGE = 14, "Max-Age", Uint, 0..=4, false, OptionDefault::Uint(60), Responses, RFC 7252;
    URI_QUERY = 15, "Uri-Query", String, 0..=255, true, NONE, Requests, RFC 7252;
    HOP_LIMIT = 16, "Hop-Limit", Uint, 1..=1, false, OptionDefault::Uint(16), Requests, RFC 8768;
    ACCEPT = 17, "Accept", Uint, 0..=2, false, NONE, Requests, RFC 7252;
    Q_BLOCK1 = 19, "Q-Block1", Uint, 0..=3, false, NONE, Both, RFC 9177;
    LOCATION_QUERY = 20, "Location-Query", String, 0..=255, true, NONE, Responses, RFC 7252;
    EDHOC = 21, "EDHOC", Empty, 0..=0, false, NONE, Requests, RFC 9668;
    BLOCK2 = 23, "Block2", Uint, 0..=3, false, NONE, Both, RFC 7959;
    BLOCK1 = 27, "Block1", Uint, 0..=3, false, NONE, Both, RFC 7959;
    SIZE2 = 28, "Size2", Uint, 0..=4, false, NONE, Both, RFC 7959;
    Q_BLOCK2 = 31, "Q-Block2", Uint, 0..=3, true, NONE, Both, RFC 9177;
    PROXY_URI = 35, "Proxy-Uri", String, 1..=1034, false, NONE, Requests, RFC 7252;
    PROXY_SCHEME = 39, "Proxy-Scheme", String, 1..=255, false, NONE, Requests, RFC 7252;
    SIZE1 = 60, "Size1", Uint, 0..=4, false, NONE, Both, RFC 7252;
    ECHO = 252, "Echo", Opaque, 1..=40, false, NONE, Both, RFC 9175;
    NO_RESPONSE = 258, "No-Response", Uint, 0..=1, false, OptionDefault::Uint(0), Requests, RFC 7967;
    REQUEST_TAG = 292, "Request-Tag", Opaque, 0..=8, true, NONE, Requests, RFC 9175;
}
