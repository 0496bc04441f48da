//! [`ReaderStream`]: reads files, pipes and standard input in a thread.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use conche::server::extract::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;

/// Bytes per read.
const PIECE: usize = 16 << 10;

/// The bytes of a reader as a stream.
#[derive(Debug)]
pub struct ReaderStream(mpsc::Receiver<io::Result<Bytes>>);

impl ReaderStream {
    /// Reads at most two pieces ahead. The thread ends with the reader, or after a piece without a
    /// receiver; process exit does not wait for it.
    pub fn of(mut reader: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(1);
        let read = move || {
            let mut buffer = vec![0; PIECE];
            loop {
                let piece = match reader.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(bytes) => Ok(Bytes::copy_from_slice(&buffer[..bytes])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let over = piece.is_err();
                if sender.blocking_send(piece).is_err() || over {
                    return;
                }
            }
        };
        thread::Builder::new().name("reader".into()).spawn(read)?;
        Ok(Self(receiver))
    }
}

impl Stream for ReaderStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
