//! [`CookieVerifier`]: verifies client addresses before handshakes (RFC 6347 §4.2.1).
//!
//! A ClientHello without a valid cookie costs two hashes and no memory; the HelloVerifyRequest is
//! no longer than it. The cookie is a keyed hash (two SipHash-2-4 values of 128 bits) of the
//! address, the time, and the ClientHello's random, session ID, cipher suites and compression
//! methods. The time replaces its last four bytes, so a returned cookie measures the round-trip
//! time. Keys change every [`LIFETIME`]; the previous one stays valid for another.
//!
//! A cookie begins one handshake: it must be newer than the last that began one from its address. A
//! replaying attacker reads the answer only at the address.
//!
//! The ClientHello's first fragment must hold the hashed fields (97 bytes and two per cipher
//! suite): shorter ones would need state for unverified addresses.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use conche_proto::Instant;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};
use subtle::ConstantTimeEq;

use crate::wire::{self, HANDSHAKE_HEADER, RECORD_HEADER, Reader, Record, content, message};

const LIFETIME: Duration = Duration::from_secs(60);
/// A 64th of a millisecond: shorter than a client's handshake.
const STAMP_UNIT: u64 = 15_625;
/// Maximum age in stamps, plus one.
const LONGEST_VALID: u32 = 120_000 * 64 + 1;
const CELLS: usize = 4096;
/// In bytes, as the engine's.
pub(crate) const COOKIE: usize = COOKIE_LENGTH as usize;
const COOKIE_LENGTH: u8 = 32;
const STAMP: usize = 4;
pub(crate) const REPLY: usize = RECORD_HEADER + HANDSHAKE_HEADER + 3 + COOKIE;
/// Maximum ClientHello message number, incremented by each cookie request.
const MOST_HELLOS: u16 = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello<'a> {
    /// Record sequence number, which the answer repeats.
    pub(crate) sequence: u64,
    pub(crate) number: u16,
    /// The same with and without a cookie.
    pub(crate) opening: &'a [u8],
    pub(crate) random: &'a [u8; 32],
    pub(crate) cookie: &'a [u8],
    pub(crate) suites: &'a [u8],
    pub(crate) compression: &'a [u8],
}

impl<'a> Hello<'a> {
    pub(crate) fn read(record: &Record<'a>) -> Option<Self> {
        if record.content != content::HANDSHAKE || record.epoch != 0 {
            return None;
        }
        let handshake = wire::handshakes(record.fragment).next()?;
        if handshake.message != message::CLIENT_HELLO
            || handshake.offset != 0
            || handshake.body.len() > handshake.length
        {
            return None;
        }
        let whole = handshake.body;
        let mut reader = Reader(whole);
        let _version: &[u8; 2] = reader.array()?;
        let random = reader.array()?;
        let session = reader.short()?;
        let opening = &whole[..whole.len() - reader.0.len()];
        let cookie = reader.short()?;
        let suites = reader.long()?;
        let compression = reader.short()?;
        let sound = session.len() <= 32 && suites.len() >= 2 && suites.len() % 2 == 0 && !compression.is_empty();
        let hello =
            Self { sequence: record.sequence, number: handshake.number, opening, random, cookie, suites, compression };
        sound.then_some(hello)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The sender receives at its address.
    Valid(Issued),
    /// Send this reply; keep no state.
    Reply([u8; REPLY]),
    /// Drop it: the reply would be longer, or the message number is too high.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    stamp: u32,
    pub(crate) age: Duration,
}

/// One key per half of a cookie.
type Keys = [[u64; 2]; 2];

pub(crate) struct CookieVerifier {
    current: Keys,
    previous: Keys,
    changed: Instant,
    spent: Spent,
}

impl core::fmt::Debug for CookieVerifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CookieVerifier").field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl CookieVerifier {
    pub(crate) fn new(now: Instant, random: &mut impl RngCore) -> Self {
        Self { current: keys(random), previous: keys(random), changed: now, spent: Spent::new(now, random) }
    }

    pub(crate) fn verify(
        &mut self,
        now: Instant,
        from: &impl Hash,
        hello: &Hello<'_>,
        bytes: usize,
        random: &mut impl RngCore,
    ) -> Verdict {
        self.change_keys(now, random);
        if hello.number >= MOST_HELLOS {
            return Verdict::Ignore;
        }
        // The number is 0 before a cookie is requested.
        if let Some(&then) = hello.cookie.last_chunk().filter(|_| hello.number > 0) {
            let valid = |keys| bool::from(cookie(keys, from, hello, then)[..].ct_eq(hello.cookie));
            if valid(&self.current) || valid(&self.previous) {
                let stamp = u32::from_be_bytes(then);
                let age = Duration::from_nanos(u64::from(stamp_at(now).wrapping_sub(stamp)) * STAMP_UNIT);
                return Verdict::Valid(Issued { stamp, age });
            }
        }
        self.request_cookie(now, from, hello, bytes)
    }

    pub(crate) fn request_cookie(&self, now: Instant, from: &impl Hash, hello: &Hello<'_>, bytes: usize) -> Verdict {
        if bytes < REPLY {
            return Verdict::Ignore;
        }
        Verdict::Reply(verify_request(hello, &cookie(&self.current, from, hello, stamp_at(now).to_be_bytes())))
    }

    /// Returns whether no cookie of this time or later has begun a handshake from here.
    pub(crate) fn is_unspent(&self, now: Instant, from: &impl Hash, issued: Issued) -> bool {
        self.spent.admits(now, from, issued.stamp)
    }

    pub(crate) fn spend(&mut self, now: Instant, from: &impl Hash, issued: Issued) {
        self.spent.record(now, from, issued.stamp);
    }

    fn change_keys(&mut self, now: Instant, random: &mut impl RngCore) {
        let age = now.since(self.changed);
        if age < LIFETIME {
            return;
        }
        self.previous = if age < 2 * LIFETIME { self.current } else { keys(random) };
        self.current = keys(random);
        self.changed = now;
    }
}

/// Each address's newest spent cookie, in constant memory.
///
/// A keyed hash maps an address to a cell in each of two rows; a cookie is spent if neither cell is
/// older. False positives need other addresses' handshakes in both cells.
#[derive(Debug)]
struct Spent {
    key: [u64; 2],
    cells: Box<[[u32; 2]; CELLS]>,
}

impl Spent {
    fn new(now: Instant, random: &mut impl RngCore) -> Self {
        let never = stamp_at(now).wrapping_sub(LONGEST_VALID);
        Self { key: [random.next_u64(), random.next_u64()], cells: Box::new([[never; 2]; CELLS]) }
    }

    fn cells(&self, from: &impl Hash) -> [usize; 2] {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        from.hash(&mut hasher);
        let hash = hasher.finish();
        // A remainder of CELLS fits.
        [hash, hash >> 32].map(|bits| usize::try_from(bits % CELLS as u64).unwrap_or_default())
    }

    fn admits(&self, now: Instant, from: &impl Hash, stamp: u32) -> bool {
        let (now, [first, second]) = (stamp_at(now), self.cells(from));
        // Ages, as stamps wrap. A cell older than any valid cookie restricts none.
        let age = now.wrapping_sub(self.cells[first][0]).max(now.wrapping_sub(self.cells[second][1]));
        now.wrapping_sub(stamp) < age.min(LONGEST_VALID)
    }

    fn record(&mut self, now: Instant, from: &impl Hash, stamp: u32) {
        let now = stamp_at(now);
        for (row, cell) in self.cells(from).into_iter().enumerate() {
            let newest = &mut self.cells[cell][row];
            if now.wrapping_sub(stamp) < now.wrapping_sub(*newest) {
                *newest = stamp;
            }
        }
    }
}

fn keys(random: &mut impl RngCore) -> Keys {
    core::array::from_fn(|_| core::array::from_fn(|_| random.next_u64()))
}

/// Stamps wrap every 18 hours; a cookie is valid for two minutes.
fn stamp_at(now: Instant) -> u32 {
    let [.., a, b, c, d] = (now.as_nanos() / STAMP_UNIT).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn cookie(keys: &Keys, from: &impl Hash, hello: &Hello<'_>, stamp: [u8; STAMP]) -> [u8; COOKIE] {
    let mut cookie = [0; COOKIE];
    for (half, [first, second]) in cookie.chunks_exact_mut(COOKIE / 2).zip(keys) {
        let mut hasher = SipHasher24::new_with_keys(*first, *second);
        from.hash(&mut hasher);
        for field in [hello.opening, hello.suites, hello.compression] {
            hasher.write_usize(field.len());
            hasher.write(field);
        }
        hasher.write(&stamp);
        half.copy_from_slice(&hasher.finish128().as_bytes());
    }
    cookie[COOKIE - STAMP..].copy_from_slice(&stamp);
    cookie
}

fn verify_request(hello: &Hello<'_>, cookie: &[u8; COOKIE]) -> [u8; REPLY] {
    let mut fragment = [0; REPLY - RECORD_HEADER];
    let (header, body) = fragment.split_at_mut(HANDSHAKE_HEADER);
    header.copy_from_slice(&wire::handshake_header(message::HELLO_VERIFY_REQUEST, hello.number, 3 + COOKIE));
    body[..2].copy_from_slice(&wire::DTLS_1_0);
    body[2] = COOKIE_LENGTH;
    body[3..].copy_from_slice(cookie);
    let mut reply = [0; REPLY];
    wire::write_record(&mut reply, content::HANDSHAKE, wire::DTLS_1_0, hello.sequence, &fragment);
    reply
}

#[cfg(test)]
mod tests;
