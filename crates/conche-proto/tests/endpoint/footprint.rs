//! Memory of an idle peer under every controller, and of an endpoint, measured at the allocator.

use std::net::{IpAddr, SocketAddr};

use conche_proto::cc::any::{ALL, AnyController};
use conche_proto::codec::{Body, Code};
use conche_proto::{Endpoint, EndpointConfig, Instant, Limits, Output, Request, SharedConfig};

/// One chunk more than a power of two: all places are used, and the index has its maximum slack.
const PEERS: u32 = 8_192 + 256;

/// All peers are idle again.
fn bytes_held(controller: AnyController) -> i64 {
    let limits = Limits { peers: PEERS as usize, ..Limits::default() };
    let config = EndpointConfig { limits, ..EndpointConfig::default() };
    let mut endpoint = Endpoint::new(config, controller, [1; 32]).expect("legal parameters");
    let mut buffer = [0; 1152];
    let measured = allocation_counter::measure(|| {
        for number in 0..PEERS {
            let peer = SocketAddr::new(IpAddr::from(number.to_be_bytes()), 5683);
            let request = Request::new(Code::GET, Body::EMPTY);
            let exchange = endpoint.request(Instant::ZERO, peer, request).expect("room for a peer");
            while !matches!(endpoint.poll(Instant::ZERO, &mut buffer), Output::Wait(_)) {}
            endpoint.cancel(Instant::ZERO, exchange);
        }
    });
    assert_eq!(endpoint.occupancy().peers, PEERS as usize);
    measured.bytes_current
}

#[test]
#[cfg(target_pointer_width = "64")]
fn an_idle_peer_takes_256_bytes_at_most_under_every_controller() {
    for named in ALL {
        let bytes = bytes_held(named.controller()) / i64::from(PEERS);
        assert!(bytes <= 256, "{bytes} bytes under {}", named.name);
    }
}

/// In a simulation, endpoints share the configuration.
#[test]
#[cfg(target_pointer_width = "64")]
fn an_endpoint_takes_1536_bytes_at_most_and_2048_with_a_request_under_way() {
    let config = SharedConfig::from(EndpointConfig::default());
    let mut held = Vec::with_capacity(2);
    for asks in [0, 1] {
        let measured = allocation_counter::measure(|| {
            let controller = AnyController::by_name("cocoa").expect("a controller");
            let mut endpoint = Box::new(Endpoint::<u32, _>::new(config.clone(), controller, [1; 32]).expect("legal"));
            let mut buffer = [0; 1152];
            for peer in 0..asks {
                let request = Request::new(Code::GET, Body::EMPTY);
                endpoint.request(Instant::ZERO, peer, request).expect("room for a peer");
            }
            while !matches!(endpoint.poll(Instant::ZERO, &mut buffer), Output::Wait(_)) {}
            held.push(endpoint);
        });
        println!("{} bytes after {asks} requests", measured.bytes_current);
        let most = if asks == 0 { 1_536 } else { 2_048 };
        assert!(measured.bytes_current <= most, "{} bytes after {asks} requests", measured.bytes_current);
    }
}

/// Compile-time limits for a waiting request, and for a deduplication entry without its reply.
#[cfg(target_pointer_width = "64")]
const _: () = {
    type Server = Endpoint<SocketAddr, AnyController>;
    assert!(Server::WAITING_REQUEST_BYTES <= 128);
    assert!(Server::DEDUPLICATION_ENTRY_BYTES <= 64);
};
