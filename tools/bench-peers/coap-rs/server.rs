//! coap-rs server of `cargo xtask bench-peers`; arguments and resources: ../README.md.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use coap::Server;
use coap_lite::{CoapRequest, MessageType, RequestType, ResponseType};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().ok_or("a port is missing")?.parse()?;
    let interval: u64 = arguments.next().ok_or("an interval is missing")?.parse()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let server = Server::new_udp(address)?;
    if interval > 0 {
        std::thread::spawn(move || tick(address, Duration::from_millis(interval)));
    }
    let serve = |mut request: Box<CoapRequest<SocketAddr>>| async move {
        let payload = match request.get_path().as_str() {
            "test" | "tick" => Some(60),
            "big" => Some(65536),
            _ => None,
        };
        if let Some(response) = &mut request.response {
            match payload {
                Some(length) => response.message.payload = vec![b'x'; length],
                None => response.set_status(ResponseType::NotFound),
            }
        }
        request
    };
    Ok(server.run(serve).await?)
}

/// coap-rs notifies observers of changes by PUT only.
fn tick(server: SocketAddr, interval: Duration) -> std::io::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let mut id = 0u16;
    loop {
        let mut request: CoapRequest<SocketAddr> = CoapRequest::new();
        request.set_method(RequestType::Put);
        request.set_path("tick");
        request.message.header.set_type(MessageType::NonConfirmable);
        request.message.header.message_id = id;
        request.message.payload = vec![b'x'; 60];
        let bytes = request.message.to_bytes().map_err(|error| std::io::Error::other(error.to_string()))?;
        socket.send_to(&bytes, server)?;
        id = id.wrapping_add(1);
        std::thread::sleep(interval);
    }
}
