//! A custom congestion controller: `cargo run -p conche --example own_controller`

use conche::cc::AnyController;
use conche::cc::dynamic::DynController;
use conche::server::get;
use conche::{Client, Server};
use twice_peak::TwicePeak;

// The template controller of `conche new-controller`.
#[allow(dead_code, reason = "its row in tables is the command's")]
#[path = "../../conche-cli/src/new_controller/template/src/lib.rs"]
mod twice_peak;

// ANCHOR: main
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // To select controllers by name, wrap a custom one.
    let wrapped = AnyController::from(DynController::new(TwicePeak::default()));
    let server = Server::builder()
        .controller(wrapped)
        .route("/hello", get(async || "world"))
        .bind("127.0.0.1:0")
        .await?;

    // If all controllers have one type, use it directly.
    let client: Client = Client::builder().own_controller(TwicePeak::default()).build()?;
    for _ in 0..10 {
        client.get(format!("coap://{}/hello", server.local_addr())).await?.successful()?;
    }

    let known = client
        .snapshot(server.local_addr())
        .await
        .ok_or("nothing is known of the path")?
        .congestion;
    let peak = known.srtt.ok_or("nothing was measured")?;
    println!("the slowest round trip took {peak:?}, so the RTO is {:?}", known.rto);
    if known.rto == 2 * peak { Ok(()) } else { Err("the RTO does not follow the peak".into()) }
}
// ANCHOR_END: main
