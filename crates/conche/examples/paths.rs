//! Path state across a restart: `cargo run -p conche --example paths`

use std::path::Path;
use std::time::Duration;

use conche::server::get;
use conche::{Client, Server};
use tokio::net::UdpSocket;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join(format!("conche-paths-{}", std::process::id()));
    let outcome = run(&file).await;
    std::fs::remove_file(&file)?;
    outcome
}

async fn run(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let server =
        Server::builder().route("/temperature", get(async || "21.5")).bind("127.0.0.1:0").await?;
    let device = server.local_addr();

    // ANCHOR: keep
    let client = Client::builder().path_store(file).build()?;
    client.get(format!("coap://{device}/temperature")).await?;
    // Only before exit: new state is written once a minute.
    client.keep_paths().await;
    // ANCHOR_END: keep
    drop(client);

    // ANCHOR: again
    // Another program, or the same one an hour later.
    let client = Client::builder().path_store(file).build()?;
    // ANCHOR_END: again
    let (srtt, known) = begins_with(&client).await?;
    srtt.ok_or("nothing was known of the path")?;

    // ANCHOR: alone
    let alone = Client::builder().share_paths(false).build()?;
    // ANCHOR_END: alone
    let (None, blind) = begins_with(&alone).await? else {
        return Err("it shares nothing, and knows the path".into());
    };
    println!(
        "retransmission timeout before the first answer: {known:?}; of a client that shares nothing: {blind:?}"
    );
    Ok(())
}

async fn begins_with(
    client: &Client,
) -> Result<(Option<Duration>, Duration), Box<dyn std::error::Error>> {
    let silent = UdpSocket::bind("127.0.0.1:0").await?;
    let peer = silent.local_addr()?;
    let request = tokio::spawn(client.get(format!("coap://{peer}/")).send());
    silent.recv_from(&mut [0; 64]).await?;
    let path = client.snapshot(peer).await.ok_or("a request is under way")?.congestion;
    request.abort();
    Ok((path.srtt, path.rto))
}
