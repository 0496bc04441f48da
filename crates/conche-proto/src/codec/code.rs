//! Method and response codes (RFC 7252 §3, §12.1, and later registrations).

use core::fmt;

/// A method (`0.01`), a response code (`2.05`) or Empty (`0.00`): three bits of class, five of
/// detail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u8);

impl Code {
    /// Creates the code from the lower three bits of the class and the lower five of the detail.
    #[must_use]
    pub const fn new(class: u8, detail: u8) -> Self {
        Self((class & 0b111) << 5 | (detail & 0b1_1111))
    }

    /// Returns the class: 0 request, 2 success, 4 client error, 5 server error.
    #[must_use]
    pub const fn class(self) -> u8 {
        self.0 >> 5
    }

    /// Returns the detail, the part after the dot.
    #[must_use]
    pub const fn detail(self) -> u8 {
        self.0 & 0b1_1111
    }

    /// Returns `true` for 0.00: neither request nor response.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` for a method, registered or not.
    #[must_use]
    pub const fn is_request(self) -> bool {
        self.class() == 0 && self.detail() > 0
    }

    /// Returns `true` for a response of class 2, 4 or 5 (RFC 7252 §5.9). Class 3 is undefined:
    /// neither request nor response.
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(self.class(), 2 | 4 | 5)
    }

    /// Returns `true` for a reserved class; its messages are rejected (RFC 7252 §4.2, §4.3).
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        matches!(self.class(), 1 | 6 | 7)
    }

    /// Returns `true` for GET (RFC 7252 §5.1) and FETCH (RFC 8132 §2), which only retrieve.
    #[must_use]
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::GET | Self::FETCH)
    }

    /// Returns `true` for the idempotent methods: GET, PUT, DELETE (RFC 7252 §5.1), FETCH and
    /// iPATCH (RFC 8132).
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::PUT | Self::DELETE | Self::IPATCH)
    }

    /// Returns `true` for 2.xx.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.class() == 2
    }

    /// Returns `true` for 4.xx. Unknown ones count as 4.00 (RFC 7252 §5.2).
    #[must_use]
    pub const fn is_client_error(self) -> bool {
        self.class() == 4
    }

    /// Returns `true` for 5.xx. Unknown ones count as 5.00 (RFC 7252 §5.2).
    #[must_use]
    pub const fn is_server_error(self) -> bool {
        self.class() == 5
    }
}

/// Prints `2.05 Content`, `GET` for a method, and only the number of an unassigned code.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.description() {
            Some(method) if self.class() == 0 => f.write_str(method),
            Some(description) => write!(f, "{self:?} {description}"),
            None => write!(f, "{self:?}"),
        }
    }
}

/// Prints `2.05`.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.class(), self.detail())
    }
}

macro_rules! registry {
    ($($(#[$rfc:meta])* $name:ident $class:literal $detail:literal $description:literal;)*) => {
        #[allow(clippy::zero_prefixed_literal, reason = "a code's detail has two digits: 2.05")]
        impl Code {
            $(
                $(#[$rfc])*
                pub const $name: Self = Self::new($class, $detail);
            )*

            /// Returns the registered name; `None` for an unassigned code.
            #[must_use]
            pub const fn description(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($description),)*
                    _ => None,
                }
            }
        }
    };
}

registry! {
    /// Empty: a ping, an ACK without a response, or a RST (RFC 7252 §4.1).
    EMPTY 0 00 "Empty";
    /// RFC 7252 §5.8.1.
    GET 0 01 "GET";
    /// RFC 7252 §5.8.2.
    POST 0 02 "POST";
    /// RFC 7252 §5.8.3.
    PUT 0 03 "PUT";
    /// RFC 7252 §5.8.4.
    DELETE 0 04 "DELETE";
    /// RFC 8132 §2.
    FETCH 0 05 "FETCH";
    /// RFC 8132 §3.
    PATCH 0 06 "PATCH";
    /// RFC 8132 §3.
    IPATCH 0 07 "iPATCH";
    /// RFC 7252 §5.9.1.1.
    CREATED 2 01 "Created";
    /// RFC 7252 §5.9.1.2.
    DELETED 2 02 "Deleted";
    /// RFC 7252 §5.9.1.3.
    VALID 2 03 "Valid";
    /// RFC 7252 §5.9.1.4.
    CHANGED 2 04 "Changed";
    /// RFC 7252 §5.9.1.5.
    CONTENT 2 05 "Content";
    /// RFC 7959 §2.9.1.
    CONTINUE 2 31 "Continue";
    /// RFC 7252 §5.9.2.1.
    BAD_REQUEST 4 00 "Bad Request";
    /// RFC 7252 §5.9.2.2.
    UNAUTHORIZED 4 01 "Unauthorized";
    /// RFC 7252 §5.9.2.3.
    BAD_OPTION 4 02 "Bad Option";
    /// RFC 7252 §5.9.2.4.
    FORBIDDEN 4 03 "Forbidden";
    /// RFC 7252 §5.9.2.5.
    NOT_FOUND 4 04 "Not Found";
    /// RFC 7252 §5.9.2.6.
    METHOD_NOT_ALLOWED 4 05 "Method Not Allowed";
    /// RFC 7252 §5.9.2.7.
    NOT_ACCEPTABLE 4 06 "Not Acceptable";
    /// RFC 7959 §2.9.2.
    REQUEST_ENTITY_INCOMPLETE 4 08 "Request Entity Incomplete";
    /// RFC 8132 §3.4.
    CONFLICT 4 09 "Conflict";
    /// RFC 7252 §5.9.2.8.
    PRECONDITION_FAILED 4 12 "Precondition Failed";
    /// RFC 7252 §5.9.2.9.
    REQUEST_ENTITY_TOO_LARGE 4 13 "Request Entity Too Large";
    /// RFC 7252 §5.9.2.10.
    UNSUPPORTED_CONTENT_FORMAT 4 15 "Unsupported Content-Format";
    /// RFC 8132 §3.4.
    UNPROCESSABLE_ENTITY 4 22 "Unprocessable Entity";
    /// RFC 8516 §3.
    TOO_MANY_REQUESTS 4 29 "Too Many Requests";
    /// RFC 7252 §5.9.3.1.
    INTERNAL_SERVER_ERROR 5 00 "Internal Server Error";
    /// RFC 7252 §5.9.3.2.
    NOT_IMPLEMENTED 5 01 "Not Implemented";
    /// RFC 7252 §5.9.3.3.
    BAD_GATEWAY 5 02 "Bad Gateway";
    /// RFC 7252 §5.9.3.4.
    SERVICE_UNAVAILABLE 5 03 "Service Unavailable";
    /// RFC 7252 §5.9.3.5.
    GATEWAY_TIMEOUT 5 04 "Gateway Timeout";
    /// RFC 7252 §5.9.3.6.
    PROXYING_NOT_SUPPORTED 5 05 "Proxying Not Supported";
    /// RFC 8768 §4.
    HOP_LIMIT_REACHED 5 08 "Hop Limit Reached";
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec::Vec};

    #[test]
    fn every_byte_splits_into_class_and_detail_and_back() {
        for byte in 0..=u8::MAX {
            let code = Code(byte);
            assert_eq!(Code::new(code.class(), code.detail()), code);
        }
    }

    #[test]
    fn a_code_has_one_role_at_most_and_only_class_3_has_none() {
        for code in (0..=u8::MAX).map(Code) {
            let roles = [code.is_empty(), code.is_request(), code.is_response(), code.is_reserved()];
            let count = roles.iter().filter(|&&role| role).count();
            assert_eq!(count, usize::from(code.class() != 3), "{code}");
            let classes = [code.is_success(), code.is_client_error(), code.is_server_error()];
            assert_eq!(classes.contains(&true), code.is_response(), "{code}");
        }
    }

    // RFC 7252 §5.1 (Q55)
    #[test]
    fn methods_that_may_be_repeated_are_those_that_the_rfcs_name() {
        let idempotent: Vec<_> = (0..=u8::MAX).map(Code).filter(|code| code.is_idempotent()).collect();
        assert_eq!(idempotent, [Code::GET, Code::PUT, Code::DELETE, Code::FETCH, Code::IPATCH]);
        let safe: Vec<_> = (0..=u8::MAX).map(Code).filter(|code| code.is_safe()).collect();
        assert_eq!(safe, [Code::GET, Code::FETCH]);
    }

    #[test]
    fn codes_print_as_the_rfc_writes_them() {
        assert_eq!(format!("{:?}", Code::CONTENT), "2.05");
        assert_eq!(format!("{:?}", Code::GET), "0.01");
        assert_eq!(format!("{}", Code::NOT_FOUND), "4.04 Not Found");
        assert_eq!(format!("{}", Code::FETCH), "FETCH");
        assert_eq!(format!("{}", Code::EMPTY), "Empty");
        assert_eq!(format!("{}", Code(0xff)), "7.31");
        assert_eq!(Code::TOO_MANY_REQUESTS.0, 0x9d);
    }
}
