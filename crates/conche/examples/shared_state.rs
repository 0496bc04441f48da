//! A server with shared state, JSON and a layer, and its client:
//! `cargo run -p conche --features json --example shared_state`.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conche::server::{
    Accept, Json, Next, Path, Rejection, Request, Response, Router, State, from_fn, get,
};
use conche::{Client, Code, ContentFormat, Server};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Setpoint {
    celsius: f32,
}

/// State shared by the handlers. Clones refer to the same map.
#[derive(Clone, Default)]
struct Rooms(Arc<Mutex<BTreeMap<String, Setpoint>>>);

impl Rooms {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Setpoint>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn list(State(rooms): State<Rooms>) -> Json<Vec<String>> {
    Json(rooms.with(|rooms| rooms.keys().cloned().collect()))
}

// ANCHOR: handlers
async fn read(State(rooms): State<Rooms>, Path(room): Path<String>) -> Option<Json<Setpoint>> {
    rooms.with(|rooms| rooms.get(&room).copied()).map(Json)
}

async fn write(
    State(rooms): State<Rooms>,
    Path(room): Path<String>,
    Json(setpoint): Json<Setpoint>,
) -> Result<Code, Rejection> {
    if !(5.0..=30.0).contains(&setpoint.celsius) {
        return Err(Rejection::new(Code::BAD_REQUEST, "a setpoint is between 5 and 30 degrees"));
    }
    let before = rooms.with(|rooms| rooms.insert(room, setpoint));
    Ok(if before.is_some() { Code::CHANGED } else { Code::CREATED })
}

// ANCHOR_END: handlers

// ANCHOR: offer
async fn count(State(rooms): State<Rooms>, accept: Accept) -> Response {
    let count = rooms.with(|rooms| rooms.len());
    let (text, json) = (format!("{count} rooms"), format!(r#"{{"rooms":{count}}}"#));
    Response::offer(accept, [(ContentFormat::TEXT_PLAIN, text), (ContentFormat::JSON, json)])
}
// ANCHOR_END: offer

// ANCHOR: router
/// A layer that makes GET responses cacheable for ten seconds.
async fn cached(request: Request, next: Next) -> Response {
    let is_read = request.method() == Code::GET;
    let response = next.run(request).await;
    if is_read { response.max_age(Duration::from_secs(10)) } else { response }
}

fn router() -> Router {
    let rooms = Router::new()
        .route("/", get(list))
        .route("/count", get(count))
        .route("/{room}", get(read).put(write).format(ContentFormat::JSON));
    Router::new().nest("/rooms", rooms).layer(from_fn(cached)).with_state(Rooms::default())
}
// ANCHOR_END: router

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // ANCHOR: server
    let server = Server::builder().router(router()).bind("127.0.0.1:0").await?;
    // ANCHOR_END: server
    let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
    let client = Client::new();

    let mut codes = Vec::new();
    for celsius in [21.5, 19.0, 99.0] {
        // ANCHOR: put
        let response = client.put(uri("/rooms/kitchen")).json(&Setpoint { celsius }).await?;
        // ANCHOR_END: put
        println!("PUT {celsius}: {} {}", response.code(), response.text()?);
        codes.push(response.code());
    }
    assert_eq!(codes, [Code::CREATED, Code::CHANGED, Code::BAD_REQUEST]);

    // ANCHOR: get
    let response =
        client.get(uri("/rooms/kitchen")).accept(ContentFormat::JSON).await?.successful()?;
    let setpoint: Setpoint = response.json()?;
    // ANCHOR_END: get
    println!("GET: {} {}", response.code(), response.text()?);
    assert_eq!(setpoint, Setpoint { celsius: 19.0 });
    assert_eq!(response.option(conche::OptionNumber::MAX_AGE), Some(&[10][..]));

    assert_eq!(client.get(uri("/rooms")).await?.text()?, r#"["kitchen"]"#);
    let count = client.get(uri("/rooms/count")).accept(ContentFormat::JSON).await?;
    assert_eq!(count.text()?, r#"{"rooms":1}"#);
    assert_eq!(client.get(uri("/rooms/cellar")).await?.code(), Code::NOT_FOUND);

    server.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
