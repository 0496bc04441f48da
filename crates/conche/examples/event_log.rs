//! Writes and reads a client's event log:
//! `cargo run -p conche --features event-log --example event_log`

use std::fs::{self, File};

use conche::server::get;
use conche::watch::EventLog;
use conche::{Client, Server};
use serde_json::Value;

const REQUESTS: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server =
        Server::builder().route("/temperature", get(async || "21.5")).bind("127.0.0.1:0").await?;
    let uri = format!("coap://{}/temperature", server.local_addr());
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("client.sqlog");

    // ANCHOR: write
    let log = EventLog::client().write_to(File::create(&path)?)?;
    let client = Client::builder().watch(log.clone()).build()?;
    for _ in 0..REQUESTS {
        client.get(&uri).await?.successful()?;
    }
    let recorded = log.finish().await?;
    println!("{} events written, {} lost", recorded.written, recorded.lost);
    // ANCHOR_END: write

    // ANCHOR: read
    // Each record is JSON after a byte 0x1e (RFC 7464). The first is the header.
    let text = fs::read_to_string(&path)?;
    let events: Vec<Value> =
        text.split('\x1e').skip(2).map(serde_json::from_str).collect::<Result<_, _>>()?;
    let named = |name: &'static str| events.iter().filter(move |event| event["name"] == name);
    for event in named("recovery:metrics_updated") {
        println!("after {} ms the RTO is {} ms", event["time"], event["data"]["rto"]);
    }
    // ANCHOR_END: read

    let responded = named("coap:exchange_updated")
        .filter(|event| event["data"]["state"] == "responded")
        .count();
    if responded == REQUESTS && named("recovery:metrics_updated").count() > 0 {
        Ok(())
    } else {
        Err(format!("the log tells of {responded} responses, not of {REQUESTS}").into())
    }
}
