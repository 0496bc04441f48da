//! A server that protects a resource with OSCORE from intermediaries, and its client:
//! `cargo run -p conche --features oscore --example oscore`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use conche::oscore::{Identity, Keys, OpenError};
use conche::server::{RequireSecured, Router, get, put};
use conche::{Client, Code, ContentFormat, Server};

// ANCHOR: handler
/// Runs only for clients that the keys authenticate.
async fn unlock(who: Identity) -> String {
    format!("opened for {who}")
}
// ANCHOR_END: handler

/// Provisions each end with a file that only its owner may read.
fn hand_out(directory: &Path) -> io::Result<()> {
    for (own, other) in [("house", "phone"), ("phone", "house")] {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.create_new(true).write(true).open(directory.join(own));
        // Real secrets have at least 16 bytes from a good random source, and differ for each pair.
        let secret = "0102030405060708090a0b0c0d0e0f10";
        let text = format!(
            "master_secret,hex,\"{secret}\"\nsender_id,ascii,\"{own}\"\nrecipient_id,ascii,\"{other}\"\n"
        );
        file?.write_all(text.as_bytes())?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let directory = directory.path();
    hand_out(directory)?;

    // ANCHOR: server
    let keys = Keys::open(directory.join("house"))?;
    let door = Router::new().route("/door", put(unlock)).layer(RequireSecured);
    let router = door.route("/time", get(async || "noon"));
    let server = Server::builder().oscore(keys).router(router).bind("127.0.0.1:0").await?;
    // ANCHOR_END: server
    let (door, time) = (
        format!("coap://{}/door", server.local_addr()),
        format!("coap://{}/time", server.local_addr()),
    );

    // ANCHOR: client
    let keys = Keys::open(directory.join("phone"))?;
    let phone = Client::builder().oscore(keys).build()?;
    let response =
        phone.put(&door).payload(ContentFormat::TEXT_PLAIN, "open").await?.successful()?;
    println!("{}", response.text()?);
    // ANCHOR_END: client
    assert_eq!(response.text()?, "opened for 70686f6e65");

    let stranger = Client::new();
    assert_eq!(stranger.put(&door).await?.code(), Code::UNAUTHORIZED);
    assert_eq!(stranger.get(&time).await?.text()?, "noon", "what is for everybody is");

    // An orderly shutdown stores the replay window. After a crash, the next server challenges its
    // clients with Echo.
    drop(server);
    let keys = opened(&directory.join("house")).await?;
    let server =
        Server::builder().oscore(keys).route("/door", put(unlock)).bind("127.0.0.1:0").await?;
    let door = format!("coap://{}/door", server.local_addr());
    assert_eq!(phone.put(&door).await?.text()?, "opened for 70686f6e65");

    Ok(())
}

async fn opened(file: &Path) -> Result<Keys, OpenError> {
    loop {
        match Keys::open(file) {
            Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            opened => return opened,
        }
    }
}
