//! [`HalfOpen`]: exchanges that wait for message_3, from unauthenticated peers.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use conche_cc::Instant;

use super::{Error, Responder};
use crate::oscore::EndId;
use crate::shares::{Group, Shares};

/// A responder's exchanges that wait for message_3, by its connection identifier (C_R).
///
/// A group of sources holds at most half of them (see [`Shares`]), each until its deadline; a host
/// with a validated address at most a sixteenth of all. Unvalidated addresses do not count for a
/// host, because an attacker could use them against it.
#[derive(Debug)]
pub struct HalfOpen {
    most: usize,
    lifetime: Duration,
    waiting: BTreeMap<EndId, Waiting>,
    /// In order of deadlines.
    deadlines: VecDeque<(Instant, EndId)>,
    shares: Shares,
    hosts: Shares,
}

#[derive(Debug)]
struct Waiting {
    responder: Responder,
    group: Group,
    host: Option<Group>,
}

/// Hosts that may use their whole share at the same time.
const HOSTS: usize = 16;

impl HalfOpen {
    /// Creates a table for `most` exchanges with this lifetime.
    #[must_use]
    pub const fn new(most: usize, lifetime: Duration) -> Self {
        Self {
            most,
            lifetime,
            waiting: BTreeMap::new(),
            deadlines: VecDeque::new(),
            shares: Shares::new(),
            hosts: Shares::new(),
        }
    }

    /// Returns `true` if another exchange of this group has room, and of this host if its address
    /// is validated. To be checked before any computation.
    pub fn admits(&mut self, now: Instant, group: Group, host: Option<Group>) -> bool {
        self.expire(now);
        let of_host = (self.most / HOSTS).max(1);
        self.shares.admits(group, 1, self.most) && host.is_none_or(|host| self.hosts.held(host) < of_host)
    }

    /// Returns `true` if an exchange has this identifier.
    #[must_use]
    pub fn has(&self, c_r: EndId) -> bool {
        self.waiting.contains_key(&c_r)
    }

    /// Returns the number of exchanges, expired ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if there are no exchanges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Stores an exchange until message_3 arrives or its lifetime ends.
    ///
    /// # Errors
    /// [`Error::Busy`] if there is no room, or if another exchange has the same identifier.
    pub fn insert(
        &mut self,
        now: Instant,
        group: Group,
        host: Option<Group>,
        responder: Responder,
    ) -> Result<(), Error> {
        let c_r = responder.c_r();
        if !self.admits(now, group, host) || self.has(c_r) {
            return Err(Error::Busy);
        }
        self.shares.take(group, 1);
        if let Some(host) = host {
            self.hosts.take(host, 1);
        }
        self.deadlines.push_back((now + self.lifetime, c_r));
        self.waiting.insert(c_r, Waiting { responder, group, host });
        Ok(())
    }

    /// Takes out the exchange of a received message_3. On failure, the exchange is over (RFC 9528
    /// §6).
    ///
    /// # Errors
    /// [`Error::NoExchange`] if it is missing or expired.
    pub fn take(&mut self, now: Instant, c_r: EndId) -> Result<Responder, Error> {
        self.expire(now);
        let responder = self.remove(c_r).ok_or(Error::NoExchange)?;
        // The following computation takes a hundred times as long.
        self.deadlines.retain(|(_, other)| *other != c_r);
        Ok(responder)
    }

    /// Removes expired exchanges.
    pub fn expire(&mut self, now: Instant) {
        while let Some((_, c_r)) = self.deadlines.front().copied().filter(|(deadline, _)| *deadline <= now) {
            self.deadlines.pop_front();
            self.remove(c_r);
        }
    }

    fn remove(&mut self, c_r: EndId) -> Option<Responder> {
        let Waiting { responder, group, host } = self.waiting.remove(&c_r)?;
        self.shares.give_back(group, 1);
        if let Some(host) = host {
            self.hosts.give_back(host, 1);
        }
        Some(responder)
    }
}
