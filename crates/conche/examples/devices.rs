//! A server that looks up pre-shared keys in a database and reports opened and closed sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

// ANCHOR: imports
use conche::security::{Identity, Secret, SessionEvent};
// ANCHOR_END: imports
use conche::server::get;
use conche::{Client, Server};
use tokio::sync::mpsc;

/// Stands for a pool of connections to a database.
struct Database(HashMap<Vec<u8>, Secret>);

impl Database {
    async fn key(&self, identity: &[u8]) -> Option<Secret> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.get(identity).cloned()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = HashMap::from([(b"lamp-7".to_vec(), Secret::new(*b"a key of sixteen"))]);
    let database = Arc::new(Database(keys));
    let (sender, events) = mpsc::channel(1024);

    // ANCHOR: lookup
    let lookup = move |identity: Vec<u8>| {
        let database = Arc::clone(&database);
        async move { database.key(&identity).await }
    };
    let server = Server::builder()
        .psk_lookup(lookup)
        .on_session(move |event| {
            // A full channel loses the event.
            let _ = sender.try_send(event.clone());
        })
        .route("/whoami", get(async |identity: Identity| identity.to_string()))
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: lookup
    let log = tokio::spawn(log(events));

    let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"a key of sixteen"))?.build()?;
    let uri = format!("coaps://{}/whoami", server.local_addr());
    println!("the server knows {}", client.get(uri).await?.text()?);

    server.shutdown(Duration::from_secs(1)).await;
    log.await?;
    Ok(())
}

// ANCHOR: events
async fn log(mut events: mpsc::Receiver<SessionEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            SessionEvent::Opened { session, .. } => {
                println!("session {} with {}: {:?}", session.id, session.peer, session.identity);
            }
            SessionEvent::Closed { session, reason, .. } => {
                println!("session {} is over: {reason}", session.id);
            }
            SessionEvent::HandshakeFailed { peer, claimed, reason, .. } => {
                println!("no session with {peer}, which claims to be {claimed:?}: {reason}");
            }
            _ => {}
        }
    }
}
// ANCHOR_END: events
