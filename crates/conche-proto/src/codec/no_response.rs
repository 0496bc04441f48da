//! [`NoResponse`]: the responses that a client does not want (RFC 7967).

use super::{Code, Content, OptionNumber, decode_uint};

/// The response classes that a client does not want: the value of No-Response (RFC 7967 §2).
///
/// ```
/// use conche_proto::codec::{Code, NoResponse};
///
/// let unwanted = NoResponse::SUCCESS.and(NoResponse::SERVER_ERROR);
/// assert!(unwanted.suppresses(Code::CHANGED) && !unwanted.suppresses(Code::NOT_FOUND));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoResponse(pub u8);

impl NoResponse {
    /// Suppresses no response, as without the option.
    pub const NOTHING: Self = Self(0);
    /// Suppresses 2.xx.
    pub const SUCCESS: Self = Self(1 << 1);
    /// Suppresses 4.xx.
    pub const CLIENT_ERROR: Self = Self(1 << 3);
    /// Suppresses 5.xx.
    pub const SERVER_ERROR: Self = Self(1 << 4);
    /// Suppresses every response.
    pub const ALL: Self = Self::SUCCESS.and(Self::CLIENT_ERROR).and(Self::SERVER_ERROR);

    /// Returns the value in a request; without the option, or with a malformed one, all responses
    /// are wanted.
    #[must_use]
    pub fn of(request: &Content<'_>) -> Self {
        Self::of_value(request.option(OptionNumber::NO_RESPONSE))
    }

    pub(crate) fn of_value(value: Option<&[u8]>) -> Self {
        value.and_then(decode_uint).and_then(|value| u8::try_from(value).ok()).map_or(Self::NOTHING, Self)
    }

    /// Returns the union of both sets of suppressed classes.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if a response with this code must not be sent.
    #[must_use]
    pub const fn suppresses(self, code: Code) -> bool {
        code.is_response() && self.0 & (1 << (code.class() - 1)) != 0
    }

    /// Returns `true` if no response of any defined class is wanted.
    #[must_use]
    pub const fn suppresses_all(self) -> bool {
        self.0 & Self::ALL.0 == Self::ALL.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7967 §2.1, Table 2
    #[test]
    fn each_bit_stands_for_a_class() {
        for (value, suppressed) in [(0, &[][..]), (2, &[2]), (8, &[4]), (16, &[5]), (26, &[2, 4, 5]), (24, &[4, 5])] {
            for class in [2, 4, 5] {
                let code = Code::new(class, 1);
                assert_eq!(NoResponse(value).suppresses(code), suppressed.contains(&class), "{value} {code}");
            }
            assert_eq!(NoResponse(value).suppresses_all(), value == 26);
        }
        assert!(NoResponse(127).suppresses_all());
        assert!(!NoResponse(127).suppresses(Code::EMPTY) && !NoResponse(127).suppresses(Code::GET));
    }
}
