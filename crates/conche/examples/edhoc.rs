//! A server and a client that agree on OSCORE keys with EDHOC:
//! `cargo run -p conche --features edhoc --example edhoc`

use conche::edhoc::{Credential, OwnCredential, Party, generate};
use conche::security::Identity;
use conche::server::get;
use conche::{Client, Server};

// ANCHOR: own
/// Makes a private key, and a credential that binds its public key to a name and a key ID.
fn provision(key_id: &[u8], name: &str) -> Result<OwnCredential, Box<dyn std::error::Error>> {
    let key = generate()?;
    let credential = Credential::of(&key, key_id, name)?;
    Ok(OwnCredential::new(key, credential)?)
}
// ANCHOR_END: own

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lamp, hall) = (provision(b"\x01", "lamp-7")?, provision(b"\x02", "hall")?);
    let (lamps, halls) = (lamp.credential().clone(), hall.credential().clone());

    // ANCHOR: server
    let server = Server::builder()
        .edhoc(Party::new(hall).with_peer(lamps)?)
        .secured_only()
        .route("/hello", get(async |client: Identity| format!("hello, {client}")))
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: server

    // ANCHOR: client
    let client = Client::builder().edhoc(Party::new(lamp).with_peer(halls)?).build()?;
    let response = client.get(format!("coap://{}/hello", server.local_addr())).await?;
    println!("{}", response.text()?);
    // ANCHOR_END: client
    if response.text()? == "hello, lamp-7" { Ok(()) } else { Err("another identity".into()) }
}
