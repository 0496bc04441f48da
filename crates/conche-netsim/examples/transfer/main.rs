//! Transfer times of a body over a slow, lossy link: block-wise (RFC 7959) and with Q-Block (RFC
//! 9177).
//!
//! `cargo run --release -p conche-netsim --example transfer [MEBIBYTES]`

mod scenario;

use std::error::Error;
use std::time::Duration;

use conche_proto::codec::Code;
use scenario::Transfer;

fn main() -> Result<(), Box<dyn Error>> {
    let mebibytes = std::env::args().nth(1).map_or(Ok(16), |given| given.parse::<usize>())?;
    println!("{mebibytes} MiB over 250 kbit/s, 200 ms, 1 % loss: body bytes a second, of 31250");
    for controller in ["default", "cocoa"] {
        for (code, method) in [(Code::GET, "GET"), (Code::PUT, "PUT")] {
            for max_payloads in [None, Some(10), Some(64), Some(256)] {
                let transfer = Transfer {
                    code,
                    body_bytes: mebibytes << 20,
                    kbit: 250,
                    rtt: Duration::from_millis(200),
                    loss: 0.01,
                    controller,
                    max_payloads,
                    seed: 1,
                };
                let way = max_payloads.map_or("block by block".to_owned(), |most| format!("in sets of {most}"));
                match transfer.run() {
                    Ok(went) => println!("{controller:8} {method} {way:16} {:5.1} % {went}", went.goodput / 312.5),
                    Err(failure) => println!("{controller:8} {method} {way:16} {failure}"),
                }
            }
        }
    }
    Ok(())
}
