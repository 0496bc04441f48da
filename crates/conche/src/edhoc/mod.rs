//! EDHOC (RFC 9528): client and server that know each other's public keys agree on [OSCORE](crate::oscore) keys, over the wire, for this
//! run alone.
//!
//! Each end has a private key, and a [`Credential`] that says whose the public one is, as its peers know it:
//!
//! ```
//! use conche::edhoc::{Credential, Own, Party, generate};
//! use conche::security::Identity;
//! use conche::server::get;
//! use conche::{Client, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let end = |kid: &[u8], name: &str| -> Result<Own, Box<dyn std::error::Error>> {
//!     let key = generate()?;
//!     let credential = Credential::of(&key, kid, name)?;
//!     Ok(Own::new(key, credential)?)
//! };
//! let (lamp, hall) = (end(b"\x01", "lamp-7")?, end(b"\x02", "hall")?);
//! let (lamp_credential, hall_credential) = (lamp.credential().clone(), hall.credential().clone());
//!
//! let greet = async |who: Identity| format!("hello, {who}");
//! let us = Party::new(hall).with_peer(lamp_credential)?;
//! let server = Server::builder().edhoc(us).secured_only().route("/hello", get(greet)).bind("127.0.0.1:0").await?;
//!
//! let client = Client::builder().edhoc(Party::new(lamp).with_peer(hall_credential)?).build()?;
//! let response = client.get(format!("coap://{}/hello", server.local_addr())).await?;
//! assert_eq!(response.text()?, "hello, lamp-7");
//! # Ok(())
//! # }
//! ```
//!
//! The client begins, with the first request to a server: two messages to `/.well-known/edhoc` and one back, after which both have a
//! context that nothing was protected with before. With [`combined`](Party::combined) the second message goes with the request itself (RFC 9668), which
//! saves a round trip. Requests that come meanwhile wait for it. When a server says that it does not know the keys any more, as after a restart, that
//! request fails with [`Failure::NotAuthenticated`](crate::Failure::NotAuthenticated), and the next one agrees on new ones.
//!
//! Both ends are authenticated with static Diffie-Hellman keys on P-256 (method 3, cipher suite 2), and name their credentials by the ID
//! of the key. A server keeps [`CONTEXTS`] contexts for each credential, the last ones, and half of what strangers have begun belongs to
//! one network at most.

mod responding;

pub use conche_proto::edhoc::{Credential, CredentialError, Error, Own, PrivateKey, Told};

pub(crate) use responding::{Answer, Responding, WHAT};

use std::fmt;
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use conche_proto::edhoc::Peers;
use conche_proto::oscore::EndId;
use zeroize::Zeroizing;

use crate::server::Resource;

/// The path of EDHOC (RFC 9528 appendix A.2).
pub(crate) const PATH: &str = "/.well-known/edhoc";

/// The Content-Format application/edhoc+cbor-seq, of responses.
pub(crate) const EDHOC: u16 = 64;

/// The Content-Format application/cid-edhoc+cbor-seq, of requests.
pub(crate) const CID_EDHOC: u8 = 65;

/// What stands before message_1 in place of an identifier: `true` in CBOR.
pub(crate) const NO_ID: u8 = 0xf5;

/// What `/.well-known/core` says of where a server agrees on keys (RFC 9668 §6): with method 3 and cipher suite 2, by the IDs of keys (COSE's
/// header parameter 4), as the one that is asked, and with the first request as well.
pub(crate) fn resource() -> Resource {
    let resource = Resource::new().resource_type("core.edhoc");
    let resource = resource.attribute("ed-method", "3").attribute("ed-csuite", "2").attribute("ed-idcred-t", "4");
    resource.attribute("ed-r", "").attribute("ed-comb-req", "")
}

/// Contexts that a server keeps for each credential of a client. The oldest one makes room for the next.
pub const CONTEXTS: usize = 4;

/// Who this end is, and whom it knows. A clone is the same.
#[derive(Clone, Debug)]
pub struct Party {
    pub(crate) own: Arc<Own>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) combined: bool,
    expected: Expected,
}

/// The peer that a client expects at its destinations.
#[derive(Clone, Debug)]
enum Expected {
    /// The only known one.
    Sole,
    One(Arc<Credential>),
    Any,
}

impl Party {
    /// This end, which knows nobody yet.
    #[must_use]
    pub fn new(own: Own) -> Self {
        Self { own: Arc::new(own), peers: Arc::default(), combined: false, expected: Expected::Sole }
    }

    /// Who this end is.
    #[must_use]
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// Adds a known peer. A server accepts all of them. A client with several known peers has to
    /// name the one that it expects, with [`expecting`](Self::expecting): a party for each server
    /// goes with [`edhoc_for`](crate::client::ClientBuilder::edhoc_for).
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if another one has the same ID, which could not be told from it, and [`CredentialError::OwnKey`] if it has this
    /// end's key: whoever sends back what this end says would be believed.
    pub fn with_peer(mut self, peer: Credential) -> Result<Self, CredentialError> {
        if peer.is_of(self.own.key()) {
            return Err(CredentialError::OwnKey);
        }
        Arc::make_mut(&mut self.peers).add(peer)?;
        Ok(self)
    }

    /// Names the known peer that a client expects at all destinations of this party. If another
    /// known peer answers there, the request fails with [`Error::OtherPeer`], and no request is
    /// sent to it.
    ///
    /// # Errors
    /// [`CredentialError::UnknownKid`] if no known peer has this key ID.
    pub fn expecting(self, kid: &[u8]) -> Result<Self, CredentialError> {
        let peer = self.peers.get(kid).cloned().ok_or(CredentialError::UnknownKid)?;
        Ok(Self { expected: Expected::One(peer), ..self })
    }

    /// Lets a client accept any known peer at any destination of this party. Each of them can then
    /// read and answer the requests to the others, if it can redirect their datagrams, unless
    /// [`expect_peer`](crate::client::RequestBuilder::expect_peer) names the peer of each request.
    #[must_use]
    pub fn expecting_any(self) -> Self {
        Self { expected: Expected::Any, ..self }
    }

    /// Returns the peer that a client expects, or `None` if it accepts any.
    ///
    /// # Errors
    /// The number of known peers, if it is not one and none of them was named.
    pub(crate) fn expected(&self) -> Result<Option<&Arc<Credential>>, usize> {
        let mut peers = self.peers.iter();
        match (&self.expected, peers.len()) {
            (Expected::One(peer), _) => Ok(Some(peer)),
            (Expected::Any, _) => Ok(None),
            (Expected::Sole, 1) => Ok(peers.next()),
            (Expected::Sole, count) => Err(count),
        }
    }

    /// Whether a client has the first request bring the last message of EDHOC (RFC 9668), which the server has to understand: those that say
    /// `ed-comb-req` in `/.well-known/core` do, and this crate's. `false` by default. A server takes both. Other requests to the server wait
    /// until that one is acknowledged or answered; a Non-confirmable one, and one whose body is made while it is sent, brings nothing.
    #[must_use]
    pub fn combined(self, combined: bool) -> Self {
        Self { combined, ..self }
    }
}

/// The holder of a credential's private key: the sender of a request or of a response.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(pub(crate) Arc<Credential>);

impl Identity {
    /// The holder of this credential's private key.
    #[must_use]
    pub fn of(credential: Credential) -> Self {
        Self(Arc::new(credential))
    }

    /// The credential.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.0
    }
}

impl std::hash::Hash for Identity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.as_slice().hash(state);
    }
}

/// The subject of the credential, or, if it has none, the ID of its key in hexadecimal digits.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subject() {
            Some(subject) => write!(f, "{}", subject.escape_debug()),
            None => Hexadecimal(self.0.kid()).fmt(f),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// A connection identifier of so many random bytes, seven at most.
pub(crate) fn random_id<const LENGTH: usize>() -> Result<EndId, Error> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    EndId::new(&bytes).ok_or(Error::NoRandomness)
}

/// A new private key.
///
/// # Errors
/// [`Error::NoRandomness`] if the operating system has no random bytes.
pub fn generate() -> Result<PrivateKey, Error> {
    let mut bytes = Zeroizing::new([0; 32]);
    loop {
        getrandom::fill(&mut *bytes).map_err(|_| Error::NoRandomness)?;
        // One in 2^32 is none.
        if let Some(key) = PrivateKey::new(&bytes) {
            return Ok(key);
        }
    }
}
