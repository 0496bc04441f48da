//! Option numbers and content formats.

use core::fmt;

/// An option number (RFC 7252 §5.10, §12.2). Its lowest bits encode the option's class (§5.4.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionNumber(pub u16);

impl OptionNumber {
    /// Returns `true` for a critical option: a recipient that does not know it must reject the
    /// message, instead of ignoring the option (§5.4.1).
    #[must_use]
    pub const fn is_critical(self) -> bool {
        self.0 & 0b1 != 0
    }

    /// Returns `true` for an unsafe option: a proxy that does not know it must not forward the
    /// message (§5.4.2).
    #[must_use]
    pub const fn is_unsafe(self) -> bool {
        self.0 & 0b10 != 0
    }

    /// Returns `true` if the option is safe to forward and not part of the cache key (§5.4.2,
    /// §5.4.6).
    #[must_use]
    pub const fn is_no_cache_key(self) -> bool {
        self.0 & 0b1_1110 == 0b1_1100
    }
}

/// Prints the option's name, or its number if it has none.
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

/// The value of Content-Format and Accept: a media type with parameters and content coding (RFC
/// 7252 §12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentFormat(pub u16);

impl ContentFormat {
    /// `text/plain; charset=utf-8` (RFC 7252 §12.3).
    pub const TEXT_PLAIN: Self = Self(0);
    /// `application/link-format` (RFC 6690).
    pub const LINK_FORMAT: Self = Self(40);
    /// `application/xml` (RFC 7252 §12.3).
    pub const XML: Self = Self(41);
    /// `application/octet-stream` (RFC 7252 §12.3).
    pub const OCTET_STREAM: Self = Self(42);
    /// `application/exi` (RFC 7252 §12.3).
    pub const EXI: Self = Self(47);
    /// `application/json` (RFC 7252 §12.3).
    pub const JSON: Self = Self(50);
    /// `application/json-patch+json` (RFC 8132 §8).
    pub const JSON_PATCH: Self = Self(51);
    /// `application/merge-patch+json` (RFC 8132 §8).
    pub const MERGE_PATCH: Self = Self(52);
    /// `application/cbor` (RFC 8949 §9.3).
    pub const CBOR: Self = Self(60);
    /// `application/concise-problem-details+cbor` (RFC 9290 §6.3).
    pub const PROBLEM_DETAILS: Self = Self(257);
    /// `application/missing-blocks+cbor-seq` (RFC 9177 §12.3).
    pub const MISSING_BLOCKS: Self = Self(272);
    /// `application/senml+json` (RFC 8428 §12.3.1).
    pub const SENML_JSON: Self = Self(110);
    /// `application/senml+cbor` (RFC 8428 §12.3.1).
    pub const SENML_CBOR: Self = Self(112);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_tells_the_classes_of_rfc_7252_table_4() {
        use OptionNumber as N;
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
}
