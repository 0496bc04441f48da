//! The conche client of `cargo xtask bench-peers` (tools/bench-peers/README.md). An optional last
//! argument sets `busy_poll` in microseconds.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conche::{Client, Uri};
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, destinations, warm_up, seconds, busy_poll @ ..] = &arguments[..] else {
        return Err("a port, a number of destinations, and two times are expected".into());
    };
    let busy_poll = busy_poll.first().map_or(Ok(0), |microseconds| microseconds.parse())?;
    let (port, destinations): (u16, u16) = (port.parse()?, destinations.parse()?);
    let (warm_up, seconds) = (
        warm_up.parse().map(Duration::from_secs_f64)?,
        seconds.parse().map(Duration::from_secs_f64)?,
    );
    let client = Client::builder().busy_poll(Duration::from_micros(busy_poll)).build()?;
    let answered = Arc::new(AtomicU64::new(0));
    for destination in 0..destinations {
        let uri: Uri = format!(
            "coap://127.0.0.1:{}/test",
            port.checked_add(destination).ok_or("too many ports")?
        )
        .parse()?;
        let (client, answered) = (client.clone(), Arc::clone(&answered));
        tokio::spawn(async move {
            loop {
                if let Ok(response) = client.get(uri.clone()).await
                    && response.payload().len() == 60
                {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    sleep(warm_up).await;
    let before = answered.load(Ordering::Relaxed);
    sleep(seconds).await;
    println!("answered {}", answered.load(Ordering::Relaxed) - before);
    Ok(())
}
