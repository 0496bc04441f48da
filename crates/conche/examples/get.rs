//! Fetches a resource: `cargo run -p conche --example get coap://[::1]/hello`

use conche::{AnyController, Client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1).ok_or("usage: get URI")?;
    let client = Client::builder().controller(AnyController::by_name("cocoa")?).build()?;
    let response = client.get(uri).await?;
    println!("{} after {:?}", response.code(), response.acknowledged_after());
    println!("{}", response.text()?);
    Ok(())
}
