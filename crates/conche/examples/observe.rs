//! An observable resource and its observer: `cargo run -p conche --example observe`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use conche::server::{Notifier, Response, State, get};
use conche::{Client, Code, Server};

// ANCHOR: resource
/// A thermometer, in tenths of a degree.
#[derive(Default)]
struct Thermometer {
    tenths: AtomicI32,
    changed: Notifier,
}

async fn read(State(thermometer): State<Arc<Thermometer>>) -> Response {
    let tenths = thermometer.tenths.load(Ordering::Relaxed);
    // A client without a notification for Max-Age and some seconds registers again.
    Response::new(Code::CONTENT)
        .text(format!("{:.1}", f64::from(tenths) / 10.0))
        .max_age(Duration::from_secs(30))
}
// ANCHOR_END: resource

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: server
    let thermometer = Arc::new(Thermometer::default());
    let resource = get(read).observed_by(&thermometer.changed).with_state(Arc::clone(&thermometer));
    let server = Server::builder().route("/temperature", resource).bind("127.0.0.1:0").await?;
    // ANCHOR_END: server

    // ANCHOR: client
    let mut temperatures =
        Client::new().observe(format!("coap://{}/temperature", server.local_addr()));
    for tenths in [205, 208, 211] {
        // Also a futures-core stream, for combinators such as futures::StreamExt's.
        let response = temperatures.next().await.ok_or("the server ended it")??.successful()?;
        println!("{} °C", response.text()?);

        thermometer.tenths.store(tenths, Ordering::Relaxed);
        thermometer.changed.notify();
    }
    println!("observers: {}", thermometer.changed.observers());
    temperatures.cancel().await?;
    // ANCHOR_END: client
    println!("observers: {}", thermometer.changed.observers());
    Ok(())
}
