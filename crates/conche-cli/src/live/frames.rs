//! [`Frames`]: the latest frames of a run, which each page reads at its own pace.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Maximum number of frames in the history.
const FRAMES: usize = 600;

/// Maximum size of the history. One frame remains in any case.
const BYTES: usize = 16 << 20;

/// The history of frames, numbered from 0.
#[derive(Debug, Default)]
pub struct Frames {
    history: Mutex<History>,
    /// The number of the next frame, and whether there is one.
    next: watch::Sender<(u64, bool)>,
    /// A page has read them.
    has_page: AtomicBool,
}

#[derive(Debug, Default)]
struct History {
    first: u64,
    bytes: usize,
    frames: VecDeque<Arc<str>>,
}

impl Frames {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame. The oldest ones leave a full history, so a slow page misses some.
    pub fn push(&self, frame: Arc<str>) {
        let mut history = self.history();
        history.bytes += frame.len();
        history.frames.push_back(frame);
        while history.frames.len() > FRAMES || (history.bytes > BYTES && history.frames.len() > 1) {
            let oldest = history.frames.pop_front();
            history.bytes -= oldest.map_or(0, |frame| frame.len());
            history.first += 1;
        }
        let next = history.first + history.frames.len() as u64;
        drop(history);
        self.next.send_modify(|of| of.0 = next);
    }

    /// Ends all readers after the last frame.
    pub fn close(&self) {
        self.next.send_modify(|of| of.1 = true);
    }

    /// Returns a reader that starts with the history.
    pub fn reader(self: &Arc<Self>) -> Reader {
        self.has_page.store(true, Ordering::Relaxed);
        Reader { next: 0, news: self.next.subscribe(), frames: Arc::clone(self) }
    }

    /// Returns whether a page has ever been open.
    pub fn has_page(&self) -> bool {
        self.has_page.load(Ordering::Relaxed)
    }

    fn from(&self, number: u64) -> Option<(u64, Arc<str>)> {
        let history = self.history();
        let number = number.max(history.first);
        let place = usize::try_from(number - history.first).ok()?;
        history.frames.get(place).map(|frame| (number, Arc::clone(frame)))
    }
}

#[derive(Debug)]
pub struct Reader {
    next: u64,
    news: watch::Receiver<(u64, bool)>,
    frames: Arc<Frames>,
}

impl Reader {
    /// Waits for the next frame; `None` after the last one.
    pub async fn next(&mut self) -> Option<(u64, Arc<str>)> {
        loop {
            // Before the look into the history, or a frame could arrive in between.
            let is_closed = self.news.borrow_and_update().1;
            if let Some((number, frame)) = self.frames.from(self.next) {
                self.next = number + 1;
                return Some((number, frame));
            }
            if is_closed || self.news.changed().await.is_err() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime;

    #[test]
    fn a_late_reader_gets_the_history_and_a_slow_one_misses_frames() {
        runtime::run(&runtime::start().expect("a runtime"), async {
            let frames = Arc::new(Frames::default());
            let mut slow = frames.reader();
            frames.push("0".into());
            assert_eq!(slow.next().await, Some((0, "0".into())));
            (1..=FRAMES + 9).for_each(|number| frames.push(number.to_string().into()));
            frames.close();
            let mut late = frames.reader();
            for reader in [&mut slow, &mut late] {
                assert_eq!(reader.next().await, Some((10, "10".into())), "the oldest one left");
                let mut last = None;
                while let Some((number, _)) = reader.next().await {
                    last = Some(number);
                }
                assert_eq!(last, Some(FRAMES as u64 + 9));
            }
        });
    }

    #[test]
    fn large_frames_leave_earlier() {
        let frames = Frames::default();
        let large: Arc<str> = "x".repeat(BYTES / 3 + 1).into();
        (0..5).for_each(|_| frames.push(Arc::clone(&large)));
        assert!(frames.history().bytes <= BYTES && frames.history().frames.len() == 2);
        frames.push("x".repeat(2 * BYTES).into());
        assert_eq!(frames.history().frames.len(), 1);
    }
}
