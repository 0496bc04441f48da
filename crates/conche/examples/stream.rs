//! Streams a log to a server and a firmware image to a file, and buffers only a few blocks:
//! `cargo run -p conche --example stream`

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use conche::body::from_reader;
use conche::server::extract::BodyError;
use conche::server::{BodyStream, Response, Router, get, post};
use conche::{Client, Code, ContentFormat, OptionNumber, Server};

const IMAGE: u32 = 200_000;

/// A reader of constant bytes, in place of a file.
fn image() -> impl tokio::io::AsyncRead + Send {
    tokio::io::AsyncReadExt::take(tokio::io::repeat(0x5a), IMAGE.into())
}

// ANCHOR: server_out
async fn firmware() -> Response {
    Response::new(Code::CONTENT)
        .stream(ContentFormat::OCTET_STREAM, Some(IMAGE), from_reader(image()))
        .etag(b"v2")
}
// ANCHOR_END: server_out

// ANCHOR: server_in
/// Maximum lines in a log.
const MOST: usize = 5_000;

async fn log(mut body: BodyStream) -> Result<(Code, String), BodyError> {
    static LINES: AtomicUsize = AtomicUsize::new(0);
    while let Some(chunk) = body.chunk().await? {
        let lines = chunk.iter().filter(|byte| **byte == b'\n').count();
        if LINES.fetch_add(lines, Ordering::Relaxed) + lines > MOST {
            return Ok((Code::REQUEST_ENTITY_TOO_LARGE, "the log is full".into()));
        }
    }
    Ok((Code::CHANGED, format!("{} lines", LINES.load(Ordering::Relaxed))))
}
// ANCHOR_END: server_in

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router = Router::new().route("/firmware", get(firmware)).route("/log", post(log));
    let server = Server::builder().router(router).bind("127.0.0.1:0").await?;
    let there = format!("coap://{}", server.local_addr());
    let client = Client::new();

    // ANCHOR: download
    let mut firmware = client.get(format!("{there}/firmware")).stream().await?.successful()?;
    println!("{:?} bytes will come", firmware.size());
    let mut file = tempfile::tempfile()?;
    while let Some(chunk) = firmware.chunk().await? {
        file.write_all(&chunk)?;
    }
    // ANCHOR_END: download

    // ANCHOR: upload
    // The pipe's writer may run for days.
    let (reader, mut writer) = tokio::io::duplex(1024);
    tokio::spawn(async move {
        for number in 0..4_000 {
            let line = format!("{number}: all is well\n");
            if tokio::io::AsyncWriteExt::write_all(&mut writer, line.as_bytes()).await.is_err() {
                break;
            }
        }
    });
    let request = client.post(format!("{there}/log")).content_format(ContentFormat::TEXT_PLAIN);
    let written = request.send_stream(from_reader(reader)).await?.successful()?;
    println!("{} were written", written.text()?);
    // ANCHOR_END: upload

    // ANCHOR: known
    // A known length can be announced.
    let request = client.post(format!("{there}/log")).uint(OptionNumber::SIZE1, IMAGE);
    let refused = request.send_stream(from_reader(image())).await?;
    // ANCHOR_END: known

    let whole = file.metadata()?.len() == u64::from(IMAGE) && written.text()? == "4000 lines";
    if whole && refused.code() == Code::CHANGED {
        Ok(())
    } else {
        Err("what came is not what was sent".into())
    }
}
