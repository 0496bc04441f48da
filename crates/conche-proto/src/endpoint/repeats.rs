//! [`Repeats`]: when a duplicate of a request is answered once more (RFC 7252 §4.2, §4.5), where the configuration
//! [paces](crate::EndpointConfig::pace_repeats) that.
//!
//! ```text
//!             answered          duplicate                       next request of the same peer
//!   server ──────┬──────────────────┬───────────────────────────────┬───────────>
//!                │<── answering time, or longer: what the last four say ──>│
//!                                   │<──── held ────>│
//! ```
//!
//! Who has one request outstanding sends the next one after it got an answer. So the time from an answer to the next request is an upper bound of what
//! the answer took. The least of the last four is the *answering time*: what was lost on the way of one of them, or an
//! application that paused, lengthens that one and not all. A repeat was *unnecessary* if the next request comes sooner
//! after it than half of the answering time: that request is the fruit of an earlier answer. From then on, duplicates are held until
//! one and a half answering times have passed since the last answer, and for no longer than it has been since the first: a client
//! whose backoff doubles waits that long after its copy. If the next request comes meanwhile, holding was right. If
//! it comes an answering time after a repeat that was held, holding was wrong, and each such case takes back one that was right.
//!
//! Where answers are lost, the next request comes an answering time after the repeat, and nothing is held. Who pauses or asks at intervals
//! is taken for one behind a queue now and then. All of it
//! is known of one peer and holds for that peer. See `docs/decisions/0024-paced-repeats.md`.

use core::time::Duration;

use super::outbox::Source;
use crate::codec::MessageId;
use crate::message::Remembered;
use crate::store::{Arena, Index, Linked, Links, List, Timers};
use conche_cc::Instant;
use conche_cc::sample::between;
use conche_cc::units::Micros;

/// What goes to a peer once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat<P> {
    pub(super) to: Source<P>,
    pub(super) id: MessageId,
    pub(super) remembered: Remembered,
}

/// What becomes of a duplicate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is answered now.
    Repeat,
    /// It is answered later, or the next request of its peer shows that it need not be.
    Hold,
}

/// All peers of which duplicates came. The one that has sent none for longest makes room.
#[derive(Debug)]
pub(super) struct Repeats<P> {
    askers: Arena<Asker<P>>,
    index: Index,
    /// By when a duplicate of theirs came last.
    order: List<LastDuplicate>,
    /// Of those that have one held, by their places.
    timers: Timers,
    capacity: usize,
}

#[derive(Debug)]
struct LastDuplicate;

/// A peer, and the last request of it.
#[derive(Debug)]
struct Asker<P> {
    /// Stands for it. Nobody outside knows the key, so no two peers can be made to share one.
    hash: u64,
    links: Links,
    /// The request, of which nothing more than this is remembered here.
    message: [u32; 2],
    answered: Option<Answered>,
    held: Option<Repeat<P>>,
    /// It has been seen to have several requests outstanding: its next one is no sign that it got what is held.
    several: bool,
    learnt: Learnt,
}

/// When a request was answered.
#[derive(Clone, Copy, Debug)]
struct Answered {
    first: Instant,
    last: Instant,
    /// A duplicate was held for as long as an answer takes, and then answered all the same.
    late: bool,
}

/// What is known of how long answers to a peer take.
#[derive(Debug, Default)]
struct Learnt {
    /// The last times from an answer to the next request; zero before there were as many.
    recent: [Micros; 4],
    turn: u8,
    /// How many more repeats were unnecessary than were missing, from zero to [`Learnt::SURE`].
    unnecessary: u8,
}

impl<P> Linked<LastDuplicate> for Asker<P> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Answered {
    /// The answer leaves once more, and perhaps was held. It left before its time where the peer would not have waited for longer, or the
    /// table was full: that holding was wrong does not follow.
    fn leaves_again(&mut self, now: Instant, was_held: bool, learnt: &Learnt) {
        self.late |= was_held && now >= self.last + learnt.hold();
        self.last = now;
    }
}

impl<P: Copy> Repeats<P> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { askers: Arena::new(), index: Index::new(), order: List::new(), timers: Timers::new(), capacity }
    }

    /// A duplicate of an answered request came from the peer with this hash. If nothing is known of it, the request was answered when it
    /// `arrived`. Beside the verdict, a repeat that was held and leaves early: that of a peer that makes room, or this one's.
    pub(super) fn duplicate(
        &mut self,
        now: Instant,
        hash: u64,
        arrived: Instant,
        repeat: Repeat<P>,
    ) -> (Verdict, Option<Repeat<P>>) {
        let message = repeat.remembered.message();
        let mut early = None;
        let index = match self.find(hash) {
            Some(index) => {
                self.order.remove(&mut self.askers, index);
                index
            }
            None => {
                if self.askers.len() >= self.capacity {
                    early = self.order.first().and_then(|oldest| self.remove(oldest));
                }
                let answered = Some(Answered { first: arrived, last: arrived, late: false });
                let (links, learnt) = (Links::default(), Learnt::default());
                let asker = Asker { hash, links, message, answered, held: None, several: false, learnt };
                let Some(index) = self.askers.insert(asker) else { return (Verdict::Repeat, early) };
                self.index.insert(hash, index);
                index
            }
        };
        self.order.push_back(&mut self.askers, index);
        let asker = &mut self.askers[index];
        if asker.message != message {
            // Of an earlier request: several are outstanding, and the next one is no sign that this one was answered.
            (asker.several, asker.learnt.unnecessary) = (true, 0);
            self.timers.cancel(index);
            return (Verdict::Repeat, asker.held.take());
        }
        let Some(answered) = &mut asker.answered else { return (Verdict::Repeat, early) };
        let patience = now + between(answered.first, now).into();
        let due = (answered.last + asker.learnt.hold()).min(patience);
        let before = asker.held.replace(repeat);
        if now < due {
            // Each copy shows that its sender waits for longer.
            self.timers.set(index, due);
            return (Verdict::Hold, early);
        }
        asker.held = None;
        self.timers.cancel(index);
        answered.leaves_again(now, before.is_some(), &asker.learnt);
        (Verdict::Repeat, early)
    }

    /// A Confirmable request came that is remembered nowhere. Of a repeat that was held: whether it is spared, and otherwise the repeat,
    /// which leaves now.
    pub(super) fn next_request(&mut self, now: Instant, hash: u64, message: [u32; 2]) -> (bool, Option<Repeat<P>>) {
        let Some(index) = self.find(hash) else { return (false, None) };
        let asker = &mut self.askers[index];
        if asker.message == message {
            // A copy all the same: it was refused, or forgotten.
            return (false, None);
        }
        self.timers.cancel(index);
        asker.message = message;
        let (held, answered) = (asker.held.take(), asker.answered.take());
        if let Some(answered) = answered {
            asker.learnt.learn(now, answered, held.is_some());
        }
        if asker.several { (false, held) } else { (held.is_some(), None) }
    }

    /// A response leaves in answer to a request.
    pub(super) fn answered(&mut self, now: Instant, hash: u64, message: [u32; 2]) {
        let Some(index) = self.find(hash) else { return };
        let asker = &mut self.askers[index];
        if asker.message == message {
            asker.answered = Some(Answered { first: now, last: now, late: false });
        }
    }

    /// A repeat whose time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Repeat<P>> {
        self.pop(now, now)
    }

    /// A repeat whose time comes until `until` leaves now.
    pub(super) fn pop(&mut self, now: Instant, until: Instant) -> Option<Repeat<P>> {
        let index = self.timers.pop_due(until)?;
        let asker = &mut self.askers[index];
        if let Some(answered) = &mut asker.answered {
            answered.leaves_again(now, true, &asker.learnt);
        }
        asker.held.take()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// How many repeats are held.
    pub(super) fn held(&self) -> usize {
        self.timers.len()
    }

    /// How many peers there are.
    pub(super) fn len(&self) -> usize {
        self.askers.len()
    }

    /// Forgets a peer. What was held for it leaves now.
    pub(super) fn forget(&mut self, hash: u64) -> Option<Repeat<P>> {
        let index = self.find(hash)?;
        self.remove(index)
    }

    pub(super) fn steps(&self) -> u64 {
        self.index.steps()
    }

    #[inline]
    fn find(&mut self, hash: u64) -> Option<u32> {
        self.index.find(&self.askers, hash, |asker: &Asker<P>| asker.hash == hash)
    }

    fn remove(&mut self, index: u32) -> Option<Repeat<P>> {
        self.order.remove(&mut self.askers, index);
        self.timers.cancel(index);
        self.index.remove(index);
        self.askers.take(index)?.held
    }
}

impl Learnt {
    /// No hold is longer. It is less than what a client waits after its last copy, ACK_TIMEOUT · 2^MAX_RETRANSMIT = 32 s (RFC 7252
    /// §4.8).
    const LONGEST: Duration = Duration::from_secs(30);

    /// So many that were missing end all holding.
    const SURE: u8 = 4;

    /// What an answer has taken lately, and the next request.
    fn answering_time(&self) -> Micros {
        self.recent.into_iter().min().unwrap_or_default()
    }

    /// How long after an answer the next one may leave.
    fn hold(&self) -> Duration {
        if self.unnecessary == 0 {
            return Duration::ZERO;
        }
        let answering_time = self.answering_time();
        Duration::from(answering_time.plus(answering_time.shifted(1))).min(Self::LONGEST)
    }

    /// The next request came: what does that say of the answers to the one before, and of a repeat that is still held?
    fn learn(&mut self, now: Instant, answered: Answered, held: bool) {
        let was_repeated = answered.last > answered.first;
        let at_once = between(answered.last, now) < self.answering_time().shifted(1);
        if held || was_repeated && at_once {
            self.unnecessary = (self.unnecessary + 1).min(Self::SURE);
        } else if answered.late {
            self.unnecessary = self.unnecessary.saturating_sub(1);
        }
        self.recent[usize::from(self.turn)] = between(answered.first, now);
        self.turn = (self.turn + 1) % 4;
    }
}
