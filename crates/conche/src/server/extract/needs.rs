//! [`Needs`]: what is known of an argument before any request arrives.

/// What an argument asks of the route that it is used for. A server that cannot give it does not start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    conditions: bool,
    stream: bool,
    captures: Option<usize>,
}

impl Needs {
    /// Nothing.
    pub const NOTHING: Self = Self { conditions: false, stream: false, captures: None };

    /// It looks at If-Match and If-None-Match. A request with one of them is answered with 4.02 if no argument of its
    /// handler does, since they are critical options (RFC 7252 §5.4.1).
    pub const CONDITIONS: Self = Self { conditions: true, ..Self::NOTHING };

    /// It takes the payload as it comes. Requests that come in blocks are handled from the first one on.
    pub const STREAM: Self = Self { stream: true, ..Self::NOTHING };

    /// It takes everything that the route captures, which is so many values.
    #[must_use]
    pub const fn captures(count: usize) -> Self {
        Self { captures: Some(count), ..Self::NOTHING }
    }

    /// What two arguments ask for.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let captures = match (self.captures, other.captures) {
            (Some(one), Some(two)) => Some(if one > two { one } else { two }),
            (None, captures) | (captures, None) => captures,
        };
        Self { conditions: self.conditions || other.conditions, stream: self.stream || other.stream, captures }
    }

    pub(in crate::server) const fn has_conditions(self) -> bool {
        self.conditions
    }

    pub(in crate::server) const fn takes_stream(self) -> bool {
        self.stream
    }

    pub(in crate::server) const fn wanted_captures(self) -> Option<usize> {
        self.captures
    }
}
