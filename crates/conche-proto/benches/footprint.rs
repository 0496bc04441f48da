//! Memory of an endpoint, an idle peer, a deduplication entry, a waiting request and an observer,
//! and of a million peers in one endpoint, counted at the allocator; and the longest time to create
//! one of these peers.
//!
//! `cargo bench -p conche-proto --bench footprint`

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant as Clock};

use conche_proto::cc::any::ALL;
use conche_proto::cc::{AnyController, Controller};
use conche_proto::codec::{Body, Code};
use conche_proto::{Endpoint, EndpointConfig, Instant, Limits, Output, PeerKey, Request};

type Server = Endpoint<SocketAddr, AnyController>;

/// The bytes, and the longest time to create a peer.
type Known = (Server, i64, Duration);

const MILLION: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("endpoint, configuration apart {:>4} B", size_of::<Server>());
    println!("idle peer, small controllers {:>4} B", Server::IDLE_PEER_BYTES);
    println!(
        "deduplication entry          {:>4} B, and 24 B for a reply of up to 14 B",
        Server::DEDUPLICATION_ENTRY_BYTES
    );
    println!("request that waits           {:>4} B", Server::WAITING_REQUEST_BYTES);
    println!("observer, with its key       {:>4} B", Server::OBSERVER_BYTES);
    println!();
    println!("idle peers, counted with 65 536 of them:");
    for named in ALL {
        let (_, bytes, _) = known(65_536, named.controller())?;
        println!("  {:<16} {:>4} B", named.name(), bytes / 65_536);
    }
    let (endpoint, bytes, longest) = known(MILLION, AnyController::by_name("cocoa")?)?;
    println!();
    println!("{} peers: {:.1} MiB, the longest of them took {longest:?}", endpoint.occupancy().peers, mib(bytes));
    Ok(())
}

fn known(peers: u32, controller: AnyController) -> Result<Known, Box<dyn std::error::Error>> {
    let limits = Limits { peers: MILLION as usize, ..Limits::default() };
    let mut endpoint = Endpoint::new(EndpointConfig { limits, ..EndpointConfig::default() }, controller, [1; 32])?;
    let mut longest = Duration::ZERO;
    let measured = allocation_counter::measure(|| {
        for number in 0..peers {
            let start = Clock::now();
            ask(&mut endpoint, SocketAddr::new(IpAddr::from(number.to_be_bytes()), 5683));
            longest = longest.max(start.elapsed());
        }
    });
    Ok((endpoint, measured.bytes_current, longest))
}

/// The peer's state remains.
fn ask<P: PeerKey, C: Controller>(endpoint: &mut Endpoint<P, C>, peer: P) {
    let mut buffer = [0; 1152];
    let asked = endpoint.request(Instant::ZERO, peer, Request::new(Code::GET, Body::EMPTY));
    while !matches!(endpoint.poll(Instant::ZERO, &mut buffer), Output::Wait(_)) {}
    if let Ok(exchange) = asked {
        endpoint.cancel(Instant::ZERO, exchange);
    }
}

#[allow(clippy::cast_precision_loss, reason = "to be shown with one decimal")]
fn mib(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
