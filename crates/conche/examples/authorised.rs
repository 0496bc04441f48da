//! Authorization by role: `cargo run -p conche --features dtls --example authorised`

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use conche::security::{Identity, Secret};
use conche::server::{
    Next, Notifier, Rejection, Request, Response, State, Text, from_fn_with_state, get,
};
use conche::{Client, Code, Server};

// ANCHOR: rights
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Right {
    Read,
    Change,
}

type Rights = Arc<HashMap<Vec<u8>, Right>>;

async fn authorise(
    State(rights): State<Rights>,
    request: Request,
    next: Next,
) -> Result<Response, Code> {
    let right = match request.extension::<Identity>() {
        Some(Identity::Psk(name)) => rights.get(&**name).copied(),
        _ => return Err(Code::UNAUTHORIZED),
    };
    let needed = if request.method() == Code::GET { Right::Read } else { Right::Change };
    if right >= Some(needed) { Ok(next.run(request).await) } else { Err(Code::FORBIDDEN) }
}
// ANCHOR_END: rights

#[derive(Clone, Default)]
struct Setpoint {
    degrees: Arc<AtomicU32>,
    changed: Notifier,
}

async fn read(State(setpoint): State<Setpoint>) -> String {
    setpoint.degrees.load(Ordering::Relaxed).to_string()
}

async fn change(State(setpoint): State<Setpoint>, Text(degrees): Text) -> Result<(), Rejection> {
    let degrees = degrees
        .parse()
        .map_err(|_| Rejection::new(Code::BAD_REQUEST, "a number of degrees was expected"))?;
    setpoint.degrees.store(degrees, Ordering::Relaxed);
    setpoint.changed.notify();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = |name: &[u8]| match name {
        b"guest" => Some(Secret::new(*b"the key of guest")),
        b"owner" => Some(Secret::new(*b"the key of owner")),
        _ => None,
    };
    let setpoint = Setpoint::default();
    let resource = get(read).put(change).observed_by(&setpoint.changed).with_state(setpoint);
    // ANCHOR: layer
    let rights: Rights = Arc::new(HashMap::from([
        (b"guest".to_vec(), Right::Read),
        (b"owner".to_vec(), Right::Change),
    ]));
    let server = Server::builder()
        .psk(keys)
        .route("/setpoint", resource.layer(from_fn_with_state(rights, authorise)))
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: layer

    let uri = format!("coaps://{}/setpoint", server.local_addr());
    let guest = Client::builder().psk(*b"guest", Secret::new(*b"the key of guest"))?.build()?;
    let owner = Client::builder().psk(*b"owner", Secret::new(*b"the key of owner"))?.build()?;

    let mut seen = guest.observe(&uri);
    println!(
        "the guest reads {}",
        seen.next().await.ok_or("a first state")??.successful()?.text()?
    );
    let refused = guest.put(&uri).bytes("30").await?;
    println!("the guest changes it: {}", refused.code());
    println!("the owner changes it: {}", owner.put(&uri).bytes("21").await?.successful()?.code());
    let heard = seen.next().await.ok_or("a change")??.successful()?;
    println!("the guest hears of {}", heard.text()?);
    if refused.code() == Code::FORBIDDEN && heard.text()? == "21" {
        Ok(())
    } else {
        Err("rights do not hold".into())
    }
}
