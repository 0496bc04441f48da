//! A server that requires a pre-shared key, and clients with the right and a wrong key.

use std::collections::HashMap;
use std::time::Duration;

use conche::security::Secret;
use conche::server::get;
use conche::{Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: server
    let keys = HashMap::from([(b"lamp-7".to_vec(), Secret::new(*b"a key of sixteen"))]);
    let server = Server::builder()
        .psk(move |identity: &[u8]| keys.get(identity).cloned())
        .route("/temperature", get(async || "21.5"))
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: server

    // ANCHOR: client
    let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"a key of sixteen"))?.build()?;
    let uri = format!("coaps://{}/temperature", server.local_addr());
    println!("{} degrees", client.get(uri).await?.text()?);
    // Waits up to 2 s for requests in flight, and closes the session.
    client.close(Duration::from_secs(2)).await;
    // ANCHOR_END: client

    // ANCHOR: wrong_key
    let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"a wrong key"))?.build()?;
    let uri = format!("coaps://{}/temperature", server.local_addr());
    match client.get(uri).await {
        Err(conche::Error::Handshake { cause, .. }) => println!("a wrong key: {cause}"),
        other => println!("{other:?}"),
    }
    // ANCHOR_END: wrong_key
    Ok(())
}
