//! OSCORE (RFC 8613): requests and responses that only the client and the server can read, change or make, whatever stands
//! between them.
//!
//! Both ends have the same master secret and each its own name, which are [`Credentials`]. [`Keys`] are those of one end, for one
//! peer, together with where their sequence numbers are kept:
//!
//! ```
//! use conche::oscore::{Credentials, EndId, Identity, Keys};
//! use conche::server::get;
//! use conche::{Client, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A secret of this run alone, which both ends know.
//! let secret = *b"16 random bytes.";
//! let [client_id, server_id] = [b"c", b"s"].map(|id| EndId::new(id).expect("no more than 7 bytes"));
//!
//! let keys = Keys::for_this_run(Credentials::new(secret, server_id, client_id))?;
//! let greet = async |who: Identity| format!("hello, {who}");
//! let server = Server::builder().oscore(keys).route("/hello", get(greet)).bind("127.0.0.1:0").await?;
//!
//! let keys = Keys::for_this_run(Credentials::new(secret, client_id, server_id))?;
//! let client = Client::builder().oscore(keys).build()?;
//! let uri = format!("coap://{}/hello", server.local_addr());
//! assert_eq!(client.get(&uri).await?.text()?, "hello, 63");
//!
//! // Without the keys there is no answer.
//! assert_eq!(Client::new().get(&uri).await?.code(), conche::Code::UNAUTHORIZED);
//! # Ok(())
//! # }
//! ```
//!
//! What is protected is the request's method, path, query, other options and payload, and all of the response. What everybody
//! sees is the addresses, the host and port that the URI names, and how many bytes go when. Congestion control, retransmission
//! and deduplication are as without it, and so are block-wise transfer and observation, which happen behind the protection.
//! Q-Block does not go with it, nor do requests to groups.
//!
//! # Numbers
//!
//! Each message has a number that no other one of the same keys may have: if one had, the protection of both would be lost. So
//! [`Keys`] ask their [`NumberStore`] to keep how far numbers are used, before they are. Credentials that outlive the program need a
//! store that does so too. After a restart a server asks the first client to show that its request is fresh (appendix B.1.2), which
//! [`Client`](crate::Client) does by itself.
//!
//! One socket at a time has the keys: a client that reaches a server by IPv4 and IPv6 uses them with whichever it asked first,
//! and a server with them has one [worker](crate::server::ServerBuilder::workers).

mod identity;
mod keys;

pub use conche_proto::oscore::{
    Aead, Credentials, CredentialsError, EndId, Hkdf, ProtectError, ReplayWindow, Secret, Start,
};

pub use identity::Identity;
pub use keys::{Keys, NumberStore};

pub(crate) use keys::{Lease, LeaseError};
