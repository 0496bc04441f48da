//! A server and a client in one program: `cargo run -p conche --example quickstart`.

use conche::server::{Path, get};
use conche::{AnyController, Client, Server};

async fn greet(Path(name): Path<String>) -> String {
    format!("hello, {name}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().route("/greet/{name}", get(greet)).bind("127.0.0.1:0").await?;

    let client = Client::builder().controller(AnyController::by_name("cocoa")?).build()?;
    let response = client.get(format!("coap://{}/greet/you", server.local_addr())).await?;

    println!("{}, after {:?}", response.text()?, response.acknowledged_after());
    Ok(())
}
