//! [`KeyLog`]: secrets of sessions, to decrypt captures.

use core::fmt::{self, Write};
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use zeroize::Zeroizing;

/// A callback that receives sessions' secrets.
///
/// A line has Wireshark's format (`SSLKEYLOGFILE`): `CLIENT_RANDOM`, the ClientHello's random, the
/// master secret. It decrypts the whole session.
#[derive(Clone)]
pub struct KeyLog(Arc<dyn Fn(&str) + Send + Sync>);

impl KeyLog {
    /// Creates a log that calls this function with each line, unterminated.
    #[must_use]
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn write(&self, random: &[u8], secret: &[u8]) {
        // Capacity beyond the line, so that no reallocation leaves a copy.
        let mut line = Zeroizing::new(String::with_capacity(256));
        let _infallible = write!(line, "CLIENT_RANDOM {} {}", Hexadecimal(random), Hexadecimal(secret));
        (self.0)(&line);
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLog")
    }
}
