//! Message IDs toward one peer: a random start, then one after the other, and none reused within EXCHANGE_LIFETIME
//! (RFC 7252 §4.4).
//!
//! Exact bookkeeping would need a time for each of 65 536 IDs. Kept instead is one time for each block of 1024, and only
//! for peers that used up a block: when the last of its IDs was handed out. A block is entered again when that is a
//! lifetime ago. This holds the rate to (65 536 - 1024) / 247 s = 261 messages a second, 1.6 % under the exact bound.

use alloc::boxed::Box;
use core::time::Duration;

use crate::codec::MessageId;
use conche_cc::Instant;

const BLOCK: u16 = 1024;
const BLOCKS: usize = (u16::MAX as usize + 1) / BLOCK as usize;

/// The message IDs toward one peer.
#[derive(Clone, Debug)]
pub(crate) struct MessageIds {
    next: u16,
    /// When the last ID of each block was handed out; `None` before the first block is used up.
    left: Option<Box<[Option<Instant>; BLOCKS]>>,
}

impl MessageIds {
    pub(crate) fn starting_at(first: u16) -> Self {
        Self { next: first, left: None }
    }

    /// When the next ID is free; `None` if it is.
    pub(crate) fn blocked_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        if !self.next.is_multiple_of(BLOCK) {
            return None;
        }
        let left = (*self.left.as_ref()?)[usize::from(self.next / BLOCK)]?;
        let free = left + lifetime;
        (free > now).then_some(free)
    }

    /// Hands out the next ID, or says when it will be free.
    pub(crate) fn allocate(&mut self, now: Instant, lifetime: Duration) -> Result<MessageId, Instant> {
        if let Some(free) = self.blocked_until(now, lifetime) {
            return Err(free);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        if self.next.is_multiple_of(BLOCK) {
            self.left.get_or_insert_with(|| Box::new([None; BLOCKS]))[usize::from(id / BLOCK)] = Some(now);
        }
        Ok(MessageId(id))
    }

    /// `id` is one of the last 256 handed out: an acknowledgement of it may be a late duplicate.
    pub(crate) fn is_recent(&self, id: MessageId) -> bool {
        (1..=256).contains(&self.next.wrapping_sub(id.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const LIFETIME: Duration = Duration::from_secs(247);

    // RFC 7252 §4.4 (Q25)
    #[test]
    fn no_id_is_reused_within_the_lifetime_at_full_speed() {
        for first in [0, 1, 1023, 1024, 40_000, u16::MAX] {
            let mut ids = MessageIds::starting_at(first);
            let mut used: vec::Vec<Option<Instant>> = vec![None; 65_536];
            let mut now = Instant::ZERO;
            for _ in 0..200_000 {
                match ids.allocate(now, LIFETIME) {
                    Ok(id) => {
                        if let Some(before) = used[usize::from(id.0)].replace(now) {
                            assert!(now - before >= LIFETIME, "{id:?} again after {:?}", now - before);
                        }
                    }
                    Err(free) => {
                        assert!(free > now, "it must be worth waiting for");
                        now = free;
                    }
                }
                now += Duration::from_micros(10);
            }
            assert!(now >= Instant::ZERO + 2 * LIFETIME, "200 000 IDs take three laps and so two lifetimes");
        }
    }

    #[test]
    fn a_slow_sender_never_waits() {
        let mut ids = MessageIds::starting_at(65_000);
        let mut now = Instant::ZERO;
        for _ in 0..200_000 {
            ids.allocate(now, LIFETIME).expect("4 ms apart is 250 a second, under the bound");
            now += Duration::from_millis(4);
        }
    }
}
