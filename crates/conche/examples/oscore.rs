//! A server whose door is opened by those only who have its keys, and a client that has: `cargo run -p conche --features oscore
//! --example oscore`. Whoever stands between them sees neither what is asked nor what is answered, and can change nothing.

use std::io;

use conche::oscore::{Credentials, EndId, Identity, Keys, NumberStore, Start};
use conche::server::{RequireSecured, Router, get, put};
use conche::{Client, Code, ContentFormat, Server};

// ANCHOR: handler
/// Only who has keys gets here, and the keys say who it is.
async fn unlock(who: Identity) -> String {
    format!("opened for {who}")
}
// ANCHOR_END: handler

/// What both ends were given, with their own name first.
fn credentials(own: &[u8], other: &[u8]) -> Option<Credentials> {
    // Of a real device these are 16 bytes or more from a good random source, and different for each pair.
    let secret = *b"an example's key";
    Some(Credentials::new(secret, EndId::new(own)?, EndId::new(other)?))
}

// ANCHOR: store
/// Numbers in a file. It begins with the last one kept; nothing of it is used before it is on the disk.
#[derive(Debug)]
struct NumberFile(std::path::PathBuf);

impl NumberStore for NumberFile {
    fn reserve(&self, up_to: u64) -> io::Result<()> {
        let beside = self.0.with_extension("tmp");
        std::fs::write(&beside, up_to.to_string())?;
        std::fs::File::open(&beside)?.sync_all()?;
        std::fs::rename(&beside, &self.0)
    }
}

impl NumberFile {
    fn start(&self) -> io::Result<Start> {
        match std::fs::read_to_string(&self.0) {
            Ok(kept) => kept.parse().map(|next| Start::Restarted { next }).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Start::First),
            Err(error) => Err(error),
        }
    }
}
// ANCHOR_END: store

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("conche-oscore-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let ids = "an ID has 7 bytes at most";

    // ANCHOR: server
    let store = NumberFile(directory.join("server"));
    let keys = Keys::new(credentials(b"house", b"phone").ok_or(ids)?, store.start()?, store)?;
    let door = Router::new().route("/door", put(unlock)).layer(RequireSecured);
    let router = door.route("/time", get(async || "noon"));
    let server = Server::builder().oscore(keys).router(router).bind("127.0.0.1:0").await?;
    // ANCHOR_END: server
    let (door, time) = (format!("coap://{}/door", server.local_addr()), format!("coap://{}/time", server.local_addr()));

    // ANCHOR: client
    let store = NumberFile(directory.join("client"));
    let keys = Keys::new(credentials(b"phone", b"house").ok_or(ids)?, store.start()?, store)?;
    let phone = Client::builder().oscore(keys).build()?;
    let response = phone.put(&door).payload(ContentFormat::TEXT_PLAIN, "open").await?.successful()?;
    println!("{}", response.text()?);
    // ANCHOR_END: client
    assert_eq!(response.text()?, "opened for 70686f6e65");

    let stranger = Client::new();
    assert_eq!(stranger.put(&door).await?.code(), Code::UNAUTHORIZED);
    assert_eq!(stranger.get(&time).await?.text()?, "noon", "what is for everybody is");

    // After a restart the server does not know what has come before: the client shows that it asks now.
    server.shutdown(std::time::Duration::from_secs(1)).await;
    let store = NumberFile(directory.join("server"));
    let keys = Keys::new(credentials(b"house", b"phone").ok_or(ids)?, store.start()?, store)?;
    let server = Server::builder().oscore(keys).route("/door", put(unlock)).bind("127.0.0.1:0").await?;
    let door = format!("coap://{}/door", server.local_addr());
    assert_eq!(phone.put(&door).await?.text()?, "opened for 70686f6e65");

    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
