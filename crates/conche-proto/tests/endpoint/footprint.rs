//! Memory of an idle peer under every controller, and of an endpoint, measured at the allocator.

use std::net::{IpAddr, SocketAddr};

use conche_proto::cc::any::{ALL, AnyController};
use conche_proto::cc::cocoa::CocoaS;
use conche_proto::codec::{Body, Code};
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, Request, Response, SharedConfig};

#[expect(dead_code, reason = "only the configuration is used")]
#[path = "../../examples/exchange.rs"]
#[rustfmt::skip] // An example has shorter lines.
mod exchange;

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
        assert!(bytes <= 256, "{bytes} bytes under {}", named.name());
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

/// The device of the example `exchange`, which the guide's chapter on microcontrollers measures.
type Device = Endpoint<u16, CocoaS>;

fn device() -> Box<Device> {
    Box::new(Device::new(exchange::config(), CocoaS::default(), [1; 32]).expect("legal limits"))
}

/// A Confirmable GET, and a PUT of 1 KiB in 16 blocks, to the resource `/t`.
fn requests(message_id: u8) -> Vec<Vec<u8>> {
    const PATH: [u8; 2] = [0xb1, b't'];
    let head = |code, number| vec![0x41, code, 0, message_id + number, number];
    let get = [head(1, 0), PATH.to_vec()].concat();
    let puts = (0..16).map(|block| {
        let more = u8::from(block < 15) << 3;
        // Block1 with SZX 2: 64 bytes.
        let block1 = [0xd1, 3, block << 4 | more | 2, 0xff];
        [head(3, 1 + block), PATH.to_vec(), block1.to_vec(), vec![b'x'; 64]].concat()
    });
    [get].into_iter().chain(puts).collect()
}

fn run(device: &mut Device, now: Instant, put: &mut usize) {
    let mut buffer = [0; 127];
    loop {
        match device.poll(now, &mut buffer) {
            Output::Event(Event::Request { id, message, .. }) => {
                if message.code() == Code::PUT {
                    *put += message.payload().len();
                }
                device.respond(now, id, Response::new(Code::CONTENT, Body::EMPTY)).expect("it is pending");
            }
            Output::Transmit(_) | Output::Event(_) => {}
            Output::Wait(_) => return,
        }
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_device_takes_2500_bytes_at_most_and_40_000_with_four_busy_peers() {
    let messages = requests(0);
    let (mut held, mut put) = (None, 0);
    let idle = allocation_counter::measure(|| held = Some(device()));
    let mut device = held.take().expect("a device");
    let busy = allocation_counter::measure(|| {
        for peer in 0..4 {
            for (number, message) in (0..).zip(&messages) {
                let now = Instant::from_millis(1_000 * u64::from(peer) + number);
                device.handle(now, Input::datagram(peer, message)).expect("room");
                run(&mut device, now, &mut put);
            }
            let now = Instant::from_millis(1_000 * u64::from(peer) + 100);
            device.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("room");
            run(&mut device, now, &mut put);
        }
    });
    let most = idle.bytes_current + i64::try_from(busy.bytes_max).expect("a device is small");
    println!("{} bytes without peers, at most {most} with four", idle.bytes_current);
    assert_eq!(put, 4 * 1_024, "each body arrives");
    assert!(idle.bytes_current <= 2_500, "{} bytes", idle.bytes_current);
    assert!(most <= 40_000, "{most} bytes");
}

/// Compile-time limits for a waiting request, and for a deduplication entry without its reply.
#[cfg(target_pointer_width = "64")]
const _: () = {
    type Server = Endpoint<SocketAddr, AnyController>;
    assert!(Server::WAITING_REQUEST_BYTES <= 128);
    assert!(Server::DEDUPLICATION_ENTRY_BYTES <= 64);
};
