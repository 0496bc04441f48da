//! [`Requirements`]: requirements of arguments, known before any request.

/// Requirements of an argument on its route. A server that cannot meet them does not start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    conditions: bool,
    stream: bool,
    captures: Option<usize>,
}

impl Requirements {
    /// No requirements.
    pub const NOTHING: Self = Self { conditions: false, stream: false, captures: None };

    /// The argument checks If-Match and If-None-Match. Otherwise requests with these critical
    /// options are answered with 4.02 (RFC 7252 §5.4.1).
    pub const CONDITIONS: Self = Self { conditions: true, ..Self::NOTHING };

    /// The argument streams the payload. Block-wise requests are handled from their first block on.
    pub const STREAM: Self = Self { stream: true, ..Self::NOTHING };

    /// The argument takes all captures of the route, which must be `count`.
    #[must_use]
    pub const fn captures(count: usize) -> Self {
        Self { captures: Some(count), ..Self::NOTHING }
    }

    /// Combines the requirements of two arguments.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let captures = match (self.captures, other.captures) {
            (Some(one), Some(two)) => Some(if one > two { one } else { two }),
            (None, captures) | (captures, None) => captures,
        };
        Self { conditions: self.conditions || other.conditions, stream: self.stream || other.stream, captures }
    }

    pub(in crate::service) const fn has_conditions(self) -> bool {
        self.conditions
    }

    pub(in crate::service) const fn takes_stream(self) -> bool {
        self.stream
    }

    pub(in crate::service) const fn wanted_captures(self) -> Option<usize> {
        self.captures
    }
}
