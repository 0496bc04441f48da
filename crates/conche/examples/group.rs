//! A multicast request to a group: `cargo run -p conche --example group` (Linux)

use std::net::IpAddr;
use std::time::Duration;

use conche::server::get;
use conche::{Client, EndpointConfig, Multicast, Server};

/// All CoAP Nodes (RFC 7252 §12.8).
const GROUP: [u8; 4] = [224, 0, 1, 187];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loopback: u32 = std::fs::read_to_string("/sys/class/net/lo/ifindex")?.trim().parse()?;

    // ANCHOR: server
    // Members respond after a random delay of at most this leisure. The default is 5 s.
    let multicast = Some(Multicast::with_leisure(Duration::from_millis(200)));
    let server = Server::builder()
        .config(EndpointConfig { multicast, ..EndpointConfig::default() })
        .join_group(IpAddr::from(GROUP), loopback)
        .route("/name", get(async || "lamp-7"))
        .bind("0.0.0.0:0")
        .await?;
    // ANCHOR_END: server
    let port = server.local_addr().port();

    // ANCHOR: client
    // This group is on the loopback; in a network, name another interface, and bind no address.
    let client = Client::builder().interface("lo").bind("127.0.0.1:0".parse()?).build()?;
    let request = client.get(format!("coap://224.0.1.187:{port}/name"));
    let mut responses = request.timeout(Duration::from_secs(2)).multicast().await?;
    let mut members = 0;
    while let Some(response) = responses.next().await {
        let (from, response) = response?;
        println!("{from}: {}", response.text()?);
        members += 1;
    }
    // ANCHOR_END: client
    if members == 1 { Ok(()) } else { Err(format!("{members} members have responded").into()) }
}
