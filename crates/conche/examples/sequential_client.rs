//! The conche client of `cargo xtask implementations` (tools/implementations/README.md). An optional
//! last argument names a controller.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conche::{AnyController, Client, Uri};
use tokio::time::sleep;

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, exchanges, interval, start, controller @ ..] = &arguments[..] else {
        return Err(
            "a host, a port, a number of exchanges, an interval and a start are expected".into()
        );
    };
    let (exchanges, start): (u32, f64) = (exchanges.parse()?, start.parse()?);
    let interval = interval.parse().map(Duration::from_secs_f64)?;
    let uri: Uri = format!("coap://{host}:{port}/").parse()?;
    let client = match controller.first() {
        Some(name) => Client::builder().controller(AnyController::by_name(name)?).build()?,
        None => Client::builder().build()?,
    };
    sleep(Duration::from_secs_f64((start - now()).max(0.0))).await;
    for _ in 0..exchanges {
        let began = now();
        let answered = client.get(uri.clone()).await.map_err(|error| eprintln!("{error}")).is_ok();
        println!("{{\"start\": {began:.6}, \"end\": {:.6}, \"answered\": {answered}}}", now());
        sleep(interval).await;
    }
    Ok(())
}
