//! A server and a client that authenticate each other with X.509 certificates:
//! `cargo run -p conche --features dtls --example certificates`.
//!
//! Their test keys are public; `tools/interop/credentials/make.sh` makes them.

use std::path::Path;

use conche::security::{Identity, OwnCertificate, Roots};
use conche::server::get;
use conche::{Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/interop/credentials");
    let read = |name: &str| std::fs::read(directory.join(name));

    // ANCHOR: server
    let certificate = OwnCertificate::from_pem(&read("server.pem")?, &read("server.key")?)?;
    let server = Server::builder()
        .certificate(certificate)
        .client_roots(Roots::from_pem(&read("ca.pem")?)?)
        .route("/whoami", get(async |client: Identity| format!("hello, {client}")))
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: server

    // ANCHOR: client
    let client = Client::builder()
        .roots(Roots::from_pem(&read("ca.pem")?)?)
        .certificate(OwnCertificate::from_pem(&read("client.pem")?, &read("client.key")?)?)
        .build()?;
    // The server's certificate must contain this host name.
    let uri = format!("coaps://localhost:{}/whoami", server.local_addr().port());
    println!("{}", client.get(uri).await?.successful()?.text()?);
    // ANCHOR_END: client
    Ok(())
}
