//! [`KeyLog`]: secrets of sessions for whoever has to read captures of them.

use core::fmt::{self, Write};
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use zeroize::Zeroizing;

/// Is told the secret of each session, as a line of the format that Wireshark and others read (`SSLKEYLOGFILE`): `CLIENT_RANDOM`, the random of
/// the ClientHello, the master secret. Whoever has such a line can read all of the session.
#[derive(Clone)]
pub struct KeyLog(Arc<dyn Fn(&str) + Send + Sync>);

impl KeyLog {
    /// Tells this function, which gets a line without its end.
    #[must_use]
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn write(&self, random: &[u8], secret: &[u8]) {
        // Longer than it will be, so that no copy is left where it grew.
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
