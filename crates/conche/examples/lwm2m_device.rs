//! An LwM2M device and its server over `coaps`:
//! `cargo run -p conche --features dtls --example lwm2m_device`.
//!
//! The device registers; the server then reads and observes it through the same DTLS session. Each
//! is client and server on one socket (LwM2M Transport 1.1 §6.4.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use conche::codec::OptionNumber;
use conche::security::{Identity, Secret};
use conche::server::{Notifier, ReplyUri, Response, State, get, post};
use conche::{Code, ContentFormat, Server, Uri};
use tokio::sync::mpsc;

#[derive(Debug)]
struct Registration {
    uri: Uri,
    identity: Identity,
}

/// A device's lamp (IPSO object 3311) and its observers.
#[derive(Default)]
struct Lamp {
    dimmer: AtomicU32,
    changed: Notifier,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (registered, mut registrations) = mpsc::channel(16);
    let server = server(registered).await?;
    let lamp = Arc::new(Lamp::default());
    let device = device(Arc::clone(&lamp)).await?;

    // ANCHOR: register
    let register = device
        .client()
        .post(format!("coaps://{}/rd?ep=lamp-7&lt=300&lwm2m=1.1&b=U", server.local_addr()));
    let links = ContentFormat::LINK_FORMAT;
    let response = register.payload(links, "</3/0>,</3311/0>").await?.successful()?;
    println!("registered as {}", response.location().unwrap_or_default());
    // ANCHOR_END: register

    // ANCHOR: manage
    let Registration { uri, identity } =
        registrations.recv().await.ok_or("no device has registered")?;
    let ask =
        |path: &str| server.client().get(format!("{uri}{path}")).expect_peer(identity.clone());

    println!("made by {}", ask("/3/0/0").await?.successful()?.text()?);
    let mut dimmer = ask("/3311/0/5851").observe();
    for level in [40, 70] {
        let state = dimmer.next().await.ok_or("the device ended it")??.successful()?;
        println!("{identity} is at {} %", state.text()?);
        lamp.dimmer.store(level, Ordering::Relaxed);
        lamp.changed.notify();
    }
    // ANCHOR_END: manage

    // ANCHOR: other
    let for_another = ask("/3/0/0").expect_peer(Identity::psk("lamp-8")).await;
    println!("not sent: {}", for_another.err().ok_or("lamp-7 has answered for lamp-8")?);
    // ANCHOR_END: other
    Ok(())
}

/// The registration interface of an LwM2M server.
async fn server(
    registered: mpsc::Sender<Registration>,
) -> Result<Server, Box<dyn std::error::Error>> {
    // ANCHOR: server
    let keys = |identity: &[u8]| (identity == b"lamp-7").then(|| Secret::new(*b"a key of sixteen"));
    let register = post(register).with_state(registered);
    let server = Server::builder().psk(keys).route("/rd", register).bind("127.0.0.1:0").await?;
    // ANCHOR_END: server
    Ok(server)
}

async fn register(
    ReplyUri(uri): ReplyUri,
    identity: Identity,
    State(registered): State<mpsc::Sender<Registration>>,
) -> Response {
    match registered.send(Registration { uri, identity }).await {
        Ok(()) => Response::new(Code::CREATED)
            .option(OptionNumber::LOCATION_PATH, b"rd")
            .option(OptionNumber::LOCATION_PATH, b"1"),
        Err(_) => Response::new(Code::SERVICE_UNAVAILABLE),
    }
}

async fn device(lamp: Arc<Lamp>) -> Result<Server, Box<dyn std::error::Error>> {
    let dimmer =
        get(async |State(lamp): State<Arc<Lamp>>| lamp.dimmer.load(Ordering::Relaxed).to_string());
    let dimmer = dimmer.observed_by(&lamp.changed).with_state(Arc::clone(&lamp));
    // ANCHOR: device
    let device = Server::builder()
        .outgoing_psk(*b"lamp-7", Secret::new(*b"a key of sixteen"))?
        .secured_only()
        .route("/3/0/0", get(async || "Example Lamps"))
        .route("/3311/0/5851", dimmer)
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: device
    Ok(device)
}
