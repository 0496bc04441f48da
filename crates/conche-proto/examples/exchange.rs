//! A sensor with a few kilobytes, and a client, without sockets and clocks:
//! `cargo run -p conche-proto --example exchange`

use conche_proto::cc::cocoa::CocoaS;
use conche_proto::codec::{Body, Code};
use conche_proto::{
    Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, Request, Response,
};

type Error = Box<dyn std::error::Error>;
/// Peers have the addresses of your radio, of any type.
type Device = Endpoint<u16, CocoaS>;

// ANCHOR: config
/// Limits of a device with one client.
pub fn config() -> EndpointConfig {
    let limits = Limits {
        peers: 4,
        exchanges: 4,
        incoming: 4,
        observers: 4,
        topics: 2,
        state_bytes: 256,
        deduplication_bytes: 1_024,
        message_bytes: 127,
        body_bytes: 1_024,
        transfers: 2,
        assembly_bytes: 2_048,
        outputs: 8,
        ..Limits::default()
    };
    EndpointConfig { limits, ..EndpointConfig::default() }
}
// ANCHOR_END: config

// ANCHOR: poll
/// Handles events and sends datagrams until the device has nothing to do. Returns the time for the
/// hardware timer.
fn run(
    device: &mut Device,
    now: Instant,
    mut send: impl FnMut(u16, &[u8]),
) -> Result<Option<Instant>, Error> {
    let mut buffer = [0; 127];
    loop {
        match device.poll(now, &mut buffer) {
            Output::Transmit(datagram) => send(datagram.to, &buffer[..datagram.len]),
            Output::Event(Event::Request { id, .. }) => {
                let body = Body::builder().payload("21.5").build()?;
                device.respond(now, id, Response::new(Code::CONTENT, body))?;
            }
            Output::Event(Event::Response { message, .. }) => {
                println!("response: {}", core::str::from_utf8(message.payload())?);
            }
            Output::Event(_) => {}
            Output::Wait(until) => return Ok(until),
        }
    }
}
// ANCHOR_END: poll

fn main() -> Result<(), Error> {
    // ANCHOR: new
    // 32 random bytes from the hardware: they protect tables, tokens and message IDs.
    let mut sensor = Device::new(config(), CocoaS::default(), [1; 32])?;
    // ANCHOR_END: new
    let mut client = Device::new(config(), CocoaS::default(), [2; 32])?;
    let (sensor_address, client_address) = (7, 9);
    let now = Instant::from_millis(0);

    let body = Body::builder().path("/temperature").build()?;
    client.request(now, sensor_address, Request::new(Code::GET, body))?;
    let mut radio = Vec::new();
    run(&mut client, now, |_, bytes| radio = bytes.to_vec())?;

    // ANCHOR: receive
    sensor.handle(now, Input::datagram(client_address, &radio))?;
    let timer = run(&mut sensor, now, |_, bytes| radio = bytes.to_vec())?;
    // ANCHOR_END: receive
    println!("the sensor's timer: {timer:?}");

    client.handle(now, Input::datagram(sensor_address, &radio))?;
    run(&mut client, now, |_, _| {})?;
    Ok(())
}
