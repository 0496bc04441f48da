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
//! and a server with them has one [worker](crate::server::ServerBuilder::workers). A client gives them back when it has ended, which
//! is some time after it was dropped: for two seconds the next one's requests wait for that, and then fail with [`KeysError::InUse`].
//!
//! # Files
//!
//! [`Keys::open`] reads credentials from files, and keeps numbers beside them. Two formats are read as they are: the configuration file of libcoap, coap_oscore_conf(5), and the directory of
//! aiocoap, with `settings.json` and `secret.json`. Whatever holds a master secret is refused if others can read it.
//!
//! A number protects one message only, whatever happens to the program or the power. A [`Keeper`] is what does that, for programs that have an endpoint of their own. [`Keeper::start`] writes that the
//! credentials are in use before it hands out a context, [`Keeper::reserve`] writes how far numbers may be used before
//! they are, and [`Keeper::close`] writes what was used at an orderly end, which saves the next start a round trip. All
//! that is in `sequence.json`, in the format of aiocoap. A lock file beside it keeps a second program from using the same
//! numbers. What no file can know is whether somebody copied it: credentials are moved, never copied, and not restored
//! from a backup.
//!
//! On Unix, credentials are refused if another user owns or may write one of these files or their
//! directory, or if the file with the secret has a second name (a hard link). If `sequence.json` is
//! missing beside its lock, the numbers used so far are lost, and the credentials are refused as
//! well.
//!
//! ```
//! use conche::oscore::Keeper;
//!
//! # #[cfg(unix)]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::io::Write as _;
//! # let directory = tempfile::tempdir()?;
//! let path = directory.path().join("light.conf");
//! # let mut options = std::fs::OpenOptions::new();
//! # std::os::unix::fs::OpenOptionsExt::mode(options.create_new(true).write(true), 0o600);
//! # options.open(&path)?.write_all(b"\
//! # master_secret,hex,\"0102030405060708090a0b0c0d0e0f10\"\n\
//! # sender_id,ascii,\"client\"\n\
//! # recipient_id,ascii,\"server\"\n")?;
//! // master_secret,hex,"0102030405060708090a0b0c0d0e0f10"
//! // sender_id,ascii,"client"
//! // recipient_id,ascii,"server"
//! let mut keeper = Keeper::open(&path)?;
//! let context = keeper.start()?;
//! assert_eq!(context.next_number(), 0);
//! // Before 256 numbers are used.
//! keeper.reserve(256)?;
//! keeper.close(&context)?;
//! # Ok(())
//! # }
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```

mod access;
mod aiocoap;
mod error;
mod identity;
mod keeper;
mod keys;
mod libcoap;
mod senders;
mod sequence;

pub use conche_proto::oscore::{
    Aead, Context, Credentials, CredentialsError, EndId, Hkdf, InsertError, ProtectError, ReplayWindow, Secret, Start,
};

pub use aiocoap::{Reference, read_map};
pub use error::OpenError;
pub use identity::Identity;
pub use keeper::Keeper;
pub use keys::{Keys, KeysError, NumberStore};

pub(crate) use keys::Lease;

#[cfg(test)]
mod tests;
