//! coap-rs client of `cargo xtask implementations`; arguments and output:
//! ../../implementations/README.md.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coap::UdpCoAPClient;
use coap::request::RequestBuilder;
use coap_lite::RequestType;
use tokio::time::sleep;

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, exchanges, interval, start] = &arguments[..] else {
        return Err("a host, a port, a number of exchanges, an interval and a start are expected".into());
    };
    let (exchanges, start): (u32, f64) = (exchanges.parse()?, start.parse()?);
    let interval = Duration::from_secs_f64(interval.parse()?);
    let client = UdpCoAPClient::new((host.as_str(), port.parse::<u16>()?)).await?;
    sleep(Duration::from_secs_f64((start - now()).max(0.0))).await;
    for token in 0..exchanges {
        let began = now();
        // coap-rs sends no token by itself.
        let token = token.to_be_bytes().to_vec();
        let request = RequestBuilder::new("/", RequestType::Get).token(Some(token)).build();
        let answered = client.send(request).await.map_err(|error| eprintln!("{error}")).is_ok();
        println!("{{\"start\": {began:.6}, \"end\": {:.6}, \"answered\": {answered}}}", now());
        sleep(interval).await;
    }
    std::process::exit(0);
}
