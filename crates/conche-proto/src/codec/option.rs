//! Option numbers, their definitions, and the encoding of options.

use core::fmt;
use core::ops::RangeInclusive;

use super::{Code, DecodeErrorKind};

/// An option number (RFC 7252 §5.10). Its lowest bits encode the option's class (§5.4.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionNumber(pub u16);

impl OptionNumber {
    /// Returns `true` for a critical option: a recipient that does not know it rejects the message
    /// (§5.4.1).
    #[must_use]
    pub const fn is_critical(self) -> bool {
        self.0 & 0b1 != 0
    }

    /// Returns `true` for an unsafe option: a proxy that does not know it does not forward the
    /// message (§5.4.2).
    #[must_use]
    pub const fn is_unsafe(self) -> bool {
        self.0 & 0b10 != 0
    }

    /// Returns `true` if the option is safe to forward and not part of the cache key (§5.4.6).
    #[must_use]
    pub const fn is_no_cache_key(self) -> bool {
        self.0 & 0b1_1110 == 0b1_1100
    }

    /// Returns `true` if requests for blocks of the same body may differ in this option.
    #[inline]
    pub(crate) const fn may_differ_between_blocks(self) -> bool {
        match self.spec() {
            Some(spec) => spec.may_differ_between_blocks,
            None => self.is_no_cache_key(),
        }
    }

    #[inline]
    pub(crate) const fn describes_blocks(self) -> bool {
        matches!(self.spec(), Some(OptionSpec { describes_blocks: true, .. }))
    }

    /// Returns the class of protection by OSCORE; unknown options are encrypted (RFC 8613 §4.1).
    #[cfg(feature = "oscore")]
    pub(crate) const fn oscore_class(self) -> OscoreClass {
        match self.spec() {
            Some(spec) => spec.oscore,
            None => OscoreClass::Encrypted,
        }
    }
}

/// Prints the name, or the number without one.
impl fmt::Display for OptionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spec() {
            Some(spec) => f.pad(spec.name),
            None => write!(f, "Option-{}", self.0),
        }
    }
}

/// Prints `11 (Uri-Path)`.
impl fmt::Debug for OptionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spec() {
            Some(spec) => write!(f, "{} ({})", self.0, spec.name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The definition of an option: a row of the table below.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The option number.
    pub number: OptionNumber,
    /// The RFC that defines the option, if any.
    pub rfc: Option<u16>,
    /// The name: `Uri-Path`.
    pub name: &'static str,
    /// The messages that may have the option.
    pub used_in: OptionUse,
    /// The format of the value.
    pub format: OptionFormat,
    /// The allowed lengths of the value, in bytes.
    pub length: RangeInclusive<u16>,
    /// The option may occur more than once.
    pub repeatable: bool,
    /// The value that applies if the option is absent.
    pub default: OptionDefault,
    /// The endpoint recognises this critical option in every message. Others must be in
    /// [`EndpointConfig::known_options`](crate::EndpointConfig::known_options).
    pub recognised: bool,
    /// Protection by OSCORE.
    pub oscore: OscoreClass,
    /// Requests for blocks of one body may differ in this option: it is not part of the cache key,
    /// or describes the blocks (RFC 7959 §2.4).
    pub may_differ_between_blocks: bool,
    /// The option describes the blocks (RFC 7959, RFC 9177); the reassembled message lacks it.
    pub describes_blocks: bool,
    /// The option concerns one client and does not select the representation: observations that
    /// differ only in such options share notifications.
    pub of_one_client: bool,
}

impl OptionSpec {
    /// Returns `true` if a value of `length` bytes is in the defined range (RFC 7252 §5.4.3).
    #[must_use]
    #[inline]
    pub fn allows_length(&self, length: usize) -> bool {
        (usize::from(*self.length.start())..=usize::from(*self.length.end())).contains(&length)
    }
}

impl OptionSpec {
    const fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    const fn default(self, default: OptionDefault) -> Self {
        Self { default, ..self }
    }

    const fn recognised(self) -> Self {
        Self { recognised: true, ..self }
    }

    const fn oscore(self, oscore: OscoreClass) -> Self {
        Self { oscore, ..self }
    }

    const fn may_differ_between_blocks(self) -> Self {
        Self { may_differ_between_blocks: true, ..self }
    }

    const fn describes_blocks(self) -> Self {
        Self { describes_blocks: true, ..self.may_differ_between_blocks().of_one_client() }
    }

    const fn of_one_client(self) -> Self {
        Self { of_one_client: true, ..self }
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
    /// The request's destination address or port (RFC 7252 §5.10.1).
    Destination,
}

/// The messages for which an option is defined; in others it is unrecognised (RFC 7252 §5.4).
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
    /// Returns `true` if the option is defined for this code, or if the code is neither request nor
    /// response.
    #[must_use]
    pub const fn includes(self, code: Code) -> bool {
        match self {
            Self::Requests => !code.is_response(),
            Self::Responses => !code.is_request(),
            Self::Both => true,
        }
    }
}

/// Protection of an option by OSCORE (RFC 8613 §4.1, figure 5).
///
/// Max-Age, the block options and No-Response may also be outer options for proxies. An endpoint
/// always encrypts its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OscoreClass {
    /// Class E: encrypted.
    Encrypted,
    /// Class U: visible to proxies, not protected.
    Visible,
    /// Encrypted, and also visible to proxies.
    Both,
    /// Split into a visible and an encrypted part (RFC 8613 §4.1.3.3).
    Divided,
    /// Marks a protected message, which cannot be protected again (RFC 8613 §4.1.3.7).
    Nested,
}

macro_rules! options {
    ($($constant:ident = $number:literal, $(RFC $rfc:literal,)?
        $name:literal, $used_in:ident, $format:ident $length:expr $(, $attribute:ident $(($argument:expr))?)*;)*) => {
        impl OptionNumber {
            $(
                #[doc = concat!($name, $(" (RFC ", $rfc, ")",)? ".")]
                pub const $constant: Self = Self($number);
            )*

            /// Returns the definition of this option; `None` for an unknown number.
            #[must_use]
            #[inline]
            pub const fn spec(self) -> Option<&'static OptionSpec> {
                match self {
                    $(Self::$constant => {
                        const SPEC: &OptionSpec = &OptionSpec {
                            number: OptionNumber::$constant,
                            rfc: [$(Some($rfc),)? None][0],
                            name: $name,
                            used_in: OptionUse::$used_in,
                            format: OptionFormat::$format,
                            length: $length,
                            repeatable: false,
                            default: OptionDefault::None,
                            recognised: false,
                            oscore: OscoreClass::Encrypted,
                            may_differ_between_blocks: OptionNumber::$constant.is_no_cache_key(),
                            describes_blocks: false,
                            of_one_client: false,
                        }$(.$attribute($($argument)?))*;
                        Some(SPEC)
                    })*
                    _ => None,
                }
            }
        }
    };
}

// A row: number, RFC if any, name, use, format, length in bytes. Critical, unsafe and NoCacheKey
// follow from the number (RFC 7252 §5.4.6). Then the other fields of `OptionSpec` that apply;
// `oscore` if not Encrypted; `may_differ_between_blocks` is implied by NoCacheKey.
options! {
    IF_MATCH = 1, RFC 7252, "If-Match", Requests, Opaque 0..=8, repeatable, recognised, of_one_client;
    URI_HOST = 3, RFC 7252, "Uri-Host", Requests, String 1..=255, default(OptionDefault::Destination), recognised,
        oscore(OscoreClass::Visible);
    ETAG = 4, RFC 7252, "ETag", Both, Opaque 1..=8, repeatable, of_one_client;
    IF_NONE_MATCH = 5, RFC 7252, "If-None-Match", Requests, Empty 0..=0, recognised, of_one_client;
    // The blocks of an observed state are requested without Observe (RFC 7959 §2.6).
    OBSERVE = 6, RFC 7641, "Observe", Both, Uint 0..=3, oscore(OscoreClass::Both), may_differ_between_blocks, of_one_client;
    URI_PORT = 7, RFC 7252, "Uri-Port", Requests, Uint 0..=2, default(OptionDefault::Destination), recognised,
        oscore(OscoreClass::Visible);
    LOCATION_PATH = 8, RFC 7252, "Location-Path", Responses, String 0..=255, repeatable;
    OSCORE = 9, RFC 8613, "OSCORE", Both, Opaque 0..=255, oscore(OscoreClass::Nested);
    URI_PATH = 11, RFC 7252, "Uri-Path", Requests, String 0..=255, repeatable, recognised;
    CONTENT_FORMAT = 12, RFC 7252, "Content-Format", Both, Uint 0..=2;
    MAX_AGE = 14, RFC 7252, "Max-Age", Responses, Uint 0..=4, default(OptionDefault::Uint(60));
    URI_QUERY = 15, RFC 7252, "Uri-Query", Requests, String 0..=255, repeatable, recognised;
    // RFC 8768 §6.
    HOP_LIMIT = 16, RFC 8768, "Hop-Limit", Requests, Uint 1..=1, default(OptionDefault::Uint(16)),
        oscore(OscoreClass::Visible);
    ACCEPT = 17, RFC 7252, "Accept", Requests, Uint 0..=2, recognised;
    Q_BLOCK1 = 19, RFC 9177, "Q-Block1", Both, Uint 0..=3, describes_blocks;
    LOCATION_QUERY = 20, RFC 7252, "Location-Query", Responses, String 0..=255, repeatable;
    EDHOC = 21, RFC 9668, "EDHOC", Requests, Empty 0..=0;
    BLOCK2 = 23, RFC 7959, "Block2", Both, Uint 0..=3, recognised, describes_blocks;
    BLOCK1 = 27, RFC 7959, "Block1", Both, Uint 0..=3, recognised, describes_blocks;
    SIZE2 = 28, RFC 7959, "Size2", Both, Uint 0..=4, describes_blocks;
    Q_BLOCK2 = 31, RFC 9177, "Q-Block2", Both, Uint 0..=3, repeatable, describes_blocks;
    PROXY_URI = 35, RFC 7252, "Proxy-Uri", Requests, String 1..=1034, recognised, oscore(OscoreClass::Divided);
    PROXY_SCHEME = 39, RFC 7252, "Proxy-Scheme", Requests, String 1..=255, recognised, oscore(OscoreClass::Visible);
    SIZE1 = 60, RFC 7252, "Size1", Both, Uint 0..=4, describes_blocks;
    ECHO = 252, RFC 9175, "Echo", Both, Opaque 1..=40, of_one_client;
    NO_RESPONSE = 258, RFC 7967, "No-Response", Requests, Uint 0..=1, default(OptionDefault::Uint(0)), of_one_client;
    REQUEST_TAG = 292, RFC 9175, "Request-Tag", Requests, Opaque 0..=8, repeatable, of_one_client;
}

// The encoding of options (RFC 7252 §3.1) and token lengths (RFC 8974 §2.1). A delta or length up
// to 12 is in its nibble; 13 announces one more byte (minus 13), 14 two more (minus 269); 15 is
// reserved.

pub(super) const PAYLOAD_MARKER: u8 = 0xff;

/// The longest option value, in bytes: 269 + 65535.
pub const MAX_OPTION_LENGTH: usize = EXTENDED_16 as usize + u16::MAX as usize;

const EXTENDED_8: u32 = 13;
const EXTENDED_16: u32 = 269;

pub(super) struct Split<'a> {
    /// Difference to the previous number; at most 65804.
    pub delta: u32,
    pub value: &'a [u8],
    pub rest: &'a [u8],
}

/// Splits off an option. `first` is its first byte, not the payload marker.
#[inline]
pub(super) fn split_option(first: u8, rest: &[u8]) -> Result<Split<'_>, DecodeErrorKind> {
    let (delta, rest) = extended(first >> 4, rest, DecodeErrorKind::OptionDelta)?;
    let (length, rest) = extended(first & 0xf, rest, DecodeErrorKind::OptionLength)?;
    let (value, rest) = rest.split_at_checked(length as usize).ok_or(DecodeErrorKind::OptionTruncated)?;
    Ok(Split { delta, value, rest })
}

/// Decodes a nibble; also returns the bytes after its extension.
#[inline]
pub(super) fn extended(nibble: u8, rest: &[u8], reserved: DecodeErrorKind) -> Result<(u32, &[u8]), DecodeErrorKind> {
    match (nibble, rest) {
        (0..=12, _) => Ok((nibble.into(), rest)),
        (13, [extension, rest @ ..]) => Ok((EXTENDED_8 + u32::from(*extension), rest)),
        (14, [high, low, rest @ ..]) => Ok((EXTENDED_16 + u32::from(u16::from_be_bytes([*high, *low])), rest)),
        (13 | 14, _) => Err(DecodeErrorKind::OptionTruncated),
        _ => Err(reserved),
    }
}

#[derive(Clone, Copy)]
pub(super) struct OptionHeader {
    /// Left-aligned. A number stays in a register, unlike an array filled byte by byte.
    packed: u64,
    length: u8,
}

impl OptionHeader {
    /// Returns `None` beyond [`MAX_OPTION_LENGTH`].
    #[inline]
    pub(super) fn new(delta: u16, length: usize) -> Option<Self> {
        let delta = Field::new(delta.into())?;
        let length = Field::new(u32::try_from(length).ok()?)?;
        let first = u64::from(delta.nibble << 4 | length.nibble);
        let with_delta = first << delta.extension_bits | u64::from(delta.extension);
        let complete = with_delta << length.extension_bits | u64::from(length.extension);
        let bits = 8 + delta.extension_bits + length.extension_bits;
        Some(Self { packed: complete << (u64::BITS - u32::from(bits)), length: bits / 8 })
    }

    #[inline]
    pub(super) const fn len(self) -> u8 {
        self.length
    }

    #[inline]
    pub(super) const fn padded(self) -> [u8; 8] {
        self.packed.to_be_bytes()
    }

    pub(super) fn bytes(self) -> impl Iterator<Item = u8> {
        self.padded().into_iter().take(self.length.into())
    }
}

/// An encoded delta or length.
pub(super) struct Field {
    pub(super) nibble: u8,
    pub(super) extension: u16,
    pub(super) extension_bits: u8,
}

impl Field {
    #[inline]
    pub(super) fn new(value: u32) -> Option<Self> {
        let (nibble, extension, extension_bits) = match value {
            0..EXTENDED_8 => (u8::try_from(value).ok()?, 0, 0),
            EXTENDED_8..EXTENDED_16 => (13, value - EXTENDED_8, 8),
            _ => (14, value - EXTENDED_16, 16),
        };
        Some(Self { nibble, extension: u16::try_from(extension).ok()?, extension_bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OptionNumber as N;

    fn all() -> impl Iterator<Item = &'static OptionSpec> {
        (0..=u16::MAX).filter_map(|number| OptionNumber(number).spec())
    }

    #[test]
    fn option_numbers_encode_the_classes_of_rfc_7252_table_4() {
        // Columns C, U, N of the table; N applies only to options that are safe to forward.
        let table = [
            (N::IF_MATCH, true, false, false),
            (N::URI_HOST, true, true, false),
            (N::ETAG, false, false, false),
            (N::IF_NONE_MATCH, true, false, false),
            (N::URI_PORT, true, true, false),
            (N::LOCATION_PATH, false, false, false),
            (N::URI_PATH, true, true, false),
            (N::CONTENT_FORMAT, false, false, false),
            (N::MAX_AGE, false, true, false),
            (N::URI_QUERY, true, true, false),
            (N::ACCEPT, true, false, false),
            (N::LOCATION_QUERY, false, false, false),
            (N::PROXY_URI, true, true, false),
            (N::PROXY_SCHEME, true, true, false),
            (N::SIZE1, false, false, true),
            // RFC 9177 §4.1, Table 1.
            (N::Q_BLOCK1, true, true, false),
            (N::Q_BLOCK2, true, true, false),
        ];
        for (number, critical, is_unsafe, no_cache_key) in table {
            assert_eq!(number.is_critical(), critical, "{number:?}");
            assert_eq!(number.is_unsafe(), is_unsafe, "{number:?}");
            assert_eq!(number.is_no_cache_key(), no_cache_key, "{number:?}");
        }
    }

    #[test]
    fn the_critical_options_of_rfc_7252_and_rfc_7959_are_recognised_everywhere() {
        for spec in all() {
            let expected = spec.number.is_critical() && matches!(spec.rfc, Some(7252 | 7959));
            assert_eq!(spec.recognised, expected, "{}", spec.name);
        }
    }

    #[test]
    fn requests_for_blocks_of_a_body_differ_in_block_options_observe_and_options_outside_of_the_cache_key() {
        let may_differ_between_blocks =
            [N::OBSERVE, N::Q_BLOCK1, N::BLOCK2, N::BLOCK1, N::SIZE2, N::Q_BLOCK2, N::SIZE1, N::ECHO];
        assert!(
            all().filter(|spec| spec.may_differ_between_blocks).map(|spec| spec.number).eq(may_differ_between_blocks)
        );
        let of_blocks = [N::Q_BLOCK1, N::BLOCK2, N::BLOCK1, N::SIZE2, N::Q_BLOCK2, N::SIZE1];
        assert!(all().filter(|spec| spec.describes_blocks).map(|spec| spec.number).eq(of_blocks));
        assert!(
            N(65_052).may_differ_between_blocks() && !N(65_004).may_differ_between_blocks(),
            "unknown options go by their number"
        );
    }

    // RFC 8613 §4.1 (figure 5)
    #[test]
    fn oscore_encrypts_all_options_but_those_that_proxies_need() {
        for spec in all() {
            let expected = match spec.number {
                N::OBSERVE => OscoreClass::Both,
                N::OSCORE => OscoreClass::Nested,
                N::PROXY_URI => OscoreClass::Divided,
                N::URI_HOST | N::URI_PORT | N::PROXY_SCHEME | N::HOP_LIMIT => OscoreClass::Visible,
                _ => OscoreClass::Encrypted,
            };
            assert_eq!(spec.oscore, expected, "{}", spec.name);
        }
    }
}
