//! coap-rs client of `cargo xtask bench-peers`; arguments and output: ../README.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coap::UdpCoAPClient;
use coap::request::RequestBuilder;
use coap_lite::RequestType;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, destinations, warm_up, seconds] = &arguments[..] else {
        return Err("a port, a number of destinations, and two times are expected".into());
    };
    let (port, destinations): (u16, u16) = (port.parse()?, destinations.parse()?);
    let (warm_up, seconds) =
        (Duration::from_secs_f64(warm_up.parse()?), Duration::from_secs_f64(seconds.parse()?));
    let answered = Arc::new(AtomicU64::new(0));
    for destination in 0..destinations {
        let client = UdpCoAPClient::new(("127.0.0.1", port + destination)).await?;
        let answered = Arc::clone(&answered);
        tokio::spawn(async move {
            for token in 0u32.. {
                // coap-rs sends no token by itself, and would confuse responses.
                let token = token.to_be_bytes().to_vec();
                let request = RequestBuilder::new("/test", RequestType::Get).token(Some(token)).build();
                match client.send(request).await {
                    Ok(response) if response.message.payload.len() == 60 => {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(_) => {}
                    Err(error) => eprintln!("{error}"),
                }
            }
        });
    }
    sleep(warm_up).await;
    let before = answered.load(Ordering::Relaxed);
    sleep(seconds).await;
    println!("answered {}", answered.load(Ordering::Relaxed) - before);
    std::process::exit(0);
}
