//! [`Identity`]: who asks, as far as keys vouch for it.

use std::fmt;
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use conche_proto::oscore::EndId;

/// Who sent a request that was protected: the name that the [`Keys`](super::Keys) give to the client. As an argument of a handler it
/// lets protected requests pass only; others are answered with 4.01. What its keys are for is the program's affair.
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

    /// Its ID: the recipient ID of the keys.
    #[must_use]
    pub fn id(&self) -> EndId {
        self.id
    }

    /// The ID context of the keys, if they have one.
    #[must_use]
    pub fn id_context(&self) -> Option<&[u8]> {
        self.id_context.as_deref()
    }
}

/// The ID in hexadecimal digits, and behind an `@` the ID context, if there is one.
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
