//! Uploads a firmware image of 1 MiB block-wise, then downloads it:
//! `cargo run -p conche --example large_body`

use std::sync::{Arc, Mutex, PoisonError};

use conche::codec::{Block, BlockSize};
use conche::server::{Payload, Response, State, get};
use conche::{Client, Code, ContentFormat, Server};

// ANCHOR: server
/// Maximum image size on both sides. The default is 64 KiB.
const LARGEST: usize = 1 << 20;

type Image = Arc<Mutex<Vec<u8>>>;

async fn read(State(image): State<Image>) -> Response {
    let image = image.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Response::new(Code::CONTENT).payload(ContentFormat::OCTET_STREAM, image)
}

async fn replace(State(image): State<Image>, Payload(new): Payload) {
    *image.lock().unwrap_or_else(PoisonError::into_inner) = new.to_vec();
}
// ANCHOR_END: server

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: bind
    let firmware = get(read).put(replace).with_state(Image::default());
    let server = Server::builder()
        .route("/firmware", firmware)
        .body_limit(LARGEST)
        .bind("127.0.0.1:0")
        .await?;
    // ANCHOR_END: bind
    let uri = format!("coap://{}/firmware", server.local_addr());

    // ANCHOR: client
    let client = Client::builder().body_limit(LARGEST).build()?;
    let image: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_be_bytes).take(LARGEST).collect();
    let sent =
        client.put(&uri).payload(ContentFormat::OCTET_STREAM, image.clone()).await?.successful()?;
    println!("sent in {} messages, {:.1?}", sent.course().messages, sent.course().elapsed);

    let read = client.get(&uri).await?.successful()?;
    println!("read in {} messages, {:.1?}", read.course().messages, read.course().elapsed);

    // ANCHOR_END: client

    // ANCHOR: block
    // One block, such as an image's header.
    let start = Block { num: 0, more: false, size: BlockSize::B16 };
    let response = client.get(&uri).block(start).await?.successful()?;
    println!("it begins with {:?}", response.payload());
    // ANCHOR_END: block

    if read.payload() == image { Ok(()) } else { Err("what came back is not what was sent".into()) }
}
