//! The conche server of `cargo xtask bench-peers` (tools/bench-peers/README.md).

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use conche::server::{Notifier, Response, get};
use conche::{Code, ContentFormat, Reliability, Server};

static PAYLOAD: [u8; 65536] = [b'x'; 65536];

fn content(length: usize) -> Response {
    let payload = Bytes::from_static(&PAYLOAD[..length]);
    Response::new(Code::CONTENT).payload(ContentFormat::OCTET_STREAM, payload)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().ok_or("a port is missing")?.parse()?;
    let interval: u64 = arguments.next().ok_or("an interval is missing")?.parse()?;
    let changed = Notifier::new();
    let tick = async || content(60).reliability(Reliability::Confirmable);
    let builder = Server::builder();
    let builder = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => builder,
        #[cfg(feature = "dtls")]
        (Some("psk"), Some(key)) => {
            builder.psk(move |_: &[u8]| Some(conche::security::Secret::new(key.as_bytes())))
        }
        #[cfg(feature = "oscore")]
        (Some("oscore"), Some(directory)) => {
            let open = |entry: std::io::Result<std::fs::DirEntry>| -> Result<_, Box<dyn Error>> {
                Ok(conche::oscore::Keys::open(entry?.path())?)
            };
            std::fs::read_dir(directory)?
                .try_fold(builder, |builder, entry| open(entry).map(|keys| builder.oscore(keys)))?
        }
        (Some(other), _) => {
            return Err(format!("{other} is not built in, or its argument is missing").into());
        }
    };
    let server = builder
        .route("/test", get(async || content(60)))
        .route("/big", get(async || content(PAYLOAD.len())))
        .route("/tick", get(tick).observed_by(&changed))
        .bind((Ipv4Addr::LOCALHOST, port))
        .await?;
    if interval > 0 {
        loop {
            tokio::time::sleep(Duration::from_millis(interval)).await;
            changed.notify();
        }
    }
    Ok(server.wait().await?)
}
