//! A gateway to ten thousand devices: `cargo run -p conche --example gateway -- [DEVICES]`
//!
//! One server on all of Linux's loopback addresses stands for the devices. Each gets two requests;
//! then a few get as many as all of them.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use conche::server::get;
use conche::{Client, Server};
use tokio::task::JoinSet;

/// The first device's address, 127.1.0.0; the others follow.
const FIRST: u32 = 0x7f01_0000;
const FEW: u32 = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices: u32 = std::env::args().nth(1).map_or(Ok(10_000), |devices| devices.parse())?;
    let server =
        Server::builder().route("/temperature", get(async || "21.5")).bind("0.0.0.0:0").await?;
    let port = server.local_addr().port();

    let client = Client::new();
    let mut failed = 0;
    for (asked, of) in
        [("each device", devices), ("each again", devices), ("a few as often", FEW.min(devices))]
    {
        let (start, busy) = (Instant::now(), processor_time()?);
        failed += ask(&client, port, devices, of).await?;
        let (elapsed, busy) = (start.elapsed(), processor_time()? - busy);
        let rate = f64::from(devices) / busy.as_secs_f64();
        println!(
            "{asked}: {devices} requests to {of} devices, {elapsed:.1?}, {rate:.0} in a second of a processor"
        );
    }
    let (retransmissions, memory) = (client.stats().await.retransmissions, peak_memory()?);
    println!("{failed} were not answered, {retransmissions} retransmissions, {memory}");
    if failed > 0 { Err(format!("{failed} requests were not answered").into()) } else { Ok(()) }
}

async fn ask(
    client: &Client,
    port: u16,
    count: u32,
    devices: u32,
) -> Result<u32, tokio::task::JoinError> {
    // ANCHOR: ask
    let mut requests = JoinSet::new();
    for request in 0..count {
        let device = Ipv4Addr::from(FIRST + request % devices);
        requests.spawn(client.get(format!("coap://{device}:{port}/temperature")).send());
    }
    // ANCHOR_END: ask

    // ANCHOR: count
    let mut failed = 0;
    while let Some(outcome) = requests.join_next().await {
        if let Err(error) = outcome?.and_then(conche::client::Response::successful) {
            failed += 1;
            eprintln!("{error}");
        }
    }
    // ANCHOR_END: count
    Ok(failed)
}

fn processor_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(times.split(' ').next().unwrap_or_default().parse()?))
}

fn peak_memory() -> Result<String, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().replace('\t', " "))
}
