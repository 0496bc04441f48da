//! Serves a greeting on all addresses: `cargo run -p conche --example server`

use conche::Server;
use conche::server::{Path, get};

async fn greet(Path(name): Path<String>) -> String {
    format!("hello, {name}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hello = get(async || "hello, world").title("A greeting").resource_type("greeting");
    let server = Server::builder()
        .route("/hello", hello)
        .route("/hello/{name}", get(greet))
        .bind("[::]:5683")
        .await?;
    println!("serving coap://{}", server.local_addr());
    Ok(server.wait().await?)
}
