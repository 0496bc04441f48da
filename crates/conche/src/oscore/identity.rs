//! [`Identity`]: a client authenticated by OSCORE keys.

use std::fmt;
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use conche_proto::oscore::EndId;

/// The sender of a protected request: the name that the [`Keys`](super::Keys) give to the client.
///
/// As a handler argument it admits only protected requests; others are answered with 4.01. The
/// program authorizes the sender.
///
/// ```
/// use conche::oscore::Identity;
/// use conche::server::{Router, put};
///
/// async fn unlock(who: Identity) {
///     println!("{who} unlocks the door");
/// }
///
/// let router: Router = Router::new().route("/door", put(unlock));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    id: EndId,
    id_context: Option<Arc<[u8]>>,
}

impl Identity {
    pub(super) fn new(id: EndId, id_context: Option<&[u8]>) -> Self {
        Self { id, id_context: id_context.map(Arc::from) }
    }

    /// Returns the client's ID: the recipient ID of the keys.
    #[must_use]
    pub fn id(&self) -> EndId {
        self.id
    }

    /// Returns the ID context of the keys, if they have one.
    #[must_use]
    pub fn id_context(&self) -> Option<&[u8]> {
        self.id_context.as_deref()
    }
}

/// Formats the ID in hexadecimal, followed by `@` and the ID context, if there is one.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hexadecimal(self.id.as_slice()).fmt(f)?;
        match &self.id_context {
            Some(id_context) => write!(f, "@{}", Hexadecimal(id_context)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}
