//! [`Recorder`]: a watcher that writes to a file from its own thread.
//!
//! The task that drives a socket must not wait for a disk, so it copies events to a queue bounded
//! in bytes. A thread empties it: a runtime would wait for a blocking task at shutdown.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::warn;

use super::{Fact, Notice, Watcher};

/// Some ten thousand small messages.
const QUEUE_BYTES: usize = 4 << 20;

/// A watcher that writes events to a file, which clones share.
///
/// Events for which the file is too slow are dropped, and the file records where and how many.
///
/// The writing thread flushes whenever it is idle, and ends with the last clone. A program that
/// ends right after its last request should call [`finish`](Self::finish).
#[derive(Clone)]
pub struct Recorder(Arc<Queue>);

/// Counters of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Events written.
    pub written: u64,
    /// Events dropped because the file was too slow.
    pub lost: u64,
}

pub(super) trait Format: Send + 'static {
    fn wants(fact: &Fact) -> bool;
    fn record(&mut self, record: &Record) -> io::Result<()>;
    fn lost(&mut self, count: u64, at: Duration) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) wall_clock: SystemTime,
    steady: Instant,
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) at: Duration,
    pub(super) socket: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) peer: SocketAddr,
    pub(super) fact: Fact,
    pub(super) datagram: Box<[u8]>,
}

impl Record {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.datagram.len()
    }
}

#[allow(clippy::large_enum_variant, reason = "nearly all are records")]
enum Item {
    Record(Record, u64),
    Finish(oneshot::Sender<io::Result<Recorded>>),
}

struct Queue {
    start: Start,
    wants: fn(&Fact) -> bool,
    items: mpsc::Sender<Item>,
    load: Arc<Load>,
}

#[derive(Default)]
struct Load {
    bytes: AtomicUsize,
    lost: AtomicU64,
}

impl Start {
    pub(super) fn now() -> Self {
        Self { wall_clock: SystemTime::now(), steady: Instant::now() }
    }
}

impl Recorder {
    pub(super) fn start<F: Format>(start: Start, format: F) -> io::Result<Self> {
        let (items, incoming) = mpsc::channel();
        let load = Arc::new(Load::default());
        let writer = Writer { start, format, load: Arc::clone(&load), recorded: Recorded::default(), failed: None };
        thread::Builder::new().name("conche-recorder".to_owned()).spawn(move || writer.run(&incoming))?;
        Ok(Self(Arc::new(Queue { start, wants: F::wants, items, load })))
    }

    /// Writes and flushes all events so far, and returns their number.
    ///
    /// # Errors
    /// The first error of the file, after which nothing was written.
    pub async fn finish(&self) -> io::Result<Recorded> {
        let (done, receiver) = oneshot::channel();
        let gone = || io::Error::other("the thread that writes the record has panicked");
        self.0.items.send(Item::Finish(done)).map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}

impl Watcher for Recorder {
    fn notice(&self, notice: &Notice<'_>) {
        let Queue { start, wants, items, load } = &*self.0;
        if !wants(&notice.fact) {
            return;
        }
        let Notice { at, socket, local, peer, fact, datagram } = *notice;
        let at = at.saturating_duration_since(start.steady);
        let bytes = size_of::<Record>() + datagram.len();
        if load.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES {
            load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            load.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let record = Record { at, socket, local, peer, fact, datagram: datagram.into() };
        // The receiver is gone only if the thread panicked.
        let _ = items.send(Item::Record(record, load.lost.swap(0, Ordering::Relaxed)));
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

struct Writer<F> {
    start: Start,
    format: F,
    load: Arc<Load>,
    recorded: Recorded,
    failed: Option<io::Error>,
}

impl<F: Format> Writer<F> {
    fn run(mut self, items: &mpsc::Receiver<Item>) {
        loop {
            let item = items.try_recv().or_else(|_| {
                self.flush_all();
                items.recv()
            });
            match item {
                Ok(Item::Record(record, lost)) => {
                    self.load.bytes.fetch_sub(record.bytes(), Ordering::Relaxed);
                    self.write_lost(lost, record.at);
                    self.attempt(|format| format.record(&record));
                    self.recorded.written += 1;
                }
                Ok(Item::Finish(done)) => {
                    self.flush_all();
                    let _ = done.send(self.outcome());
                }
                Err(_) => return,
            }
        }
    }

    fn flush_all(&mut self) {
        let lost = self.load.lost.swap(0, Ordering::Relaxed);
        self.write_lost(lost, self.start.steady.elapsed());
        self.attempt(F::flush);
    }

    fn write_lost(&mut self, lost: u64, at: Duration) {
        if lost > 0 {
            self.recorded.lost += lost;
            self.attempt(|format| format.lost(lost, at));
        }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut F) -> io::Result<()>) {
        if self.failed.is_none()
            && let Err(error) = write(&mut self.format)
        {
            warn!(%error, "a record of events or packets cannot be written; it ends here");
            self.failed = Some(error);
        }
    }

    fn outcome(&self) -> io::Result<Recorded> {
        match &self.failed {
            // `io::Error` is not `Clone`.
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(self.recorded),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Kept {
        gate: mpsc::Receiver<()>,
        told: Arc<Mutex<Vec<(&'static str, u64)>>>,
    }

    impl Kept {
        fn push(&self, what: &'static str, number: u64) {
            self.told.lock().expect("nobody panics while telling").push((what, number));
        }
    }

    impl Format for Kept {
        fn wants(_: &Fact) -> bool {
            true
        }

        fn record(&mut self, record: &Record) -> io::Result<()> {
            let _ = self.gate.recv();
            self.push("datagram", record.datagram.len() as u64);
            Ok(())
        }

        fn lost(&mut self, count: u64, _: Duration) -> io::Result<()> {
            self.push("lost", count);
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn notice(recorder: &Recorder, datagram: &[u8]) {
        let address = SocketAddr::from(([127, 0, 0, 1], 5683));
        let (local, fact) = (None, Fact::Unreachable);
        recorder.notice(&Notice { at: Instant::now(), socket: address, local, peer: address, fact, datagram });
    }

    #[tokio::test]
    async fn records_beyond_the_queue_are_counted_at_the_gap_without_blocking() {
        let (open, gate) = mpsc::channel();
        let told = Arc::new(Mutex::new(Vec::new()));
        let recorder = Recorder::start(Start::now(), Kept { gate, told: Arc::clone(&told) }).expect("a thread");
        let large = vec![0; QUEUE_BYTES / 2 - size_of::<Record>()];
        notice(&recorder, b"x");
        while recorder.0.load.bytes.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        for _ in 0..5 {
            notice(&recorder, &large);
        }
        drop(open);
        let recorded = recorder.finish().await.expect("nothing fails");
        assert_eq!((recorded.written, recorded.lost), (3, 3));
        let large = ("datagram", large.len() as u64);
        assert_eq!(*told.lock().expect("nobody panicked"), [("datagram", 1), large, large, ("lost", 3)]);
    }

    struct Full(u32);

    impl Format for Full {
        fn wants(_: &Fact) -> bool {
            true
        }

        fn record(&mut self, _: &Record) -> io::Result<()> {
            self.0 += 1;
            assert_eq!(self.0, 1, "nothing is written after an error");
            Err(io::ErrorKind::StorageFull.into())
        }

        fn lost(&mut self, _: u64, _: Duration) -> io::Result<()> {
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_first_write_error_ends_recording_and_each_finish_returns_it() {
        let recorder = Recorder::start(Start::now(), Full(0)).expect("a thread");
        for _ in 0..2 {
            notice(&recorder, b"x");
            let error = recorder.finish().await.expect_err("the disk is full");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    }
}
