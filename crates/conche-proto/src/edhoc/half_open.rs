//! [`HalfOpen`]: exchanges that wait for message_3. Nobody has shown yet who they are with, so that they are few and do not last.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use conche_cc::Instant;

use super::{Error, Responder};
use crate::oscore::EndId;
use crate::shares::{Group, Shares};

/// The exchanges of a responder that wait for message_3, by the connection identifiers that it gave itself (C_R).
///
/// One group of sources holds half of them at most, as [`Shares`] says, and each of them until its deadline. Within it, a host that has shown
/// that it is where it says holds a sixteenth of all at most; what others hold does not count there, as anybody could have it count for a host.
#[derive(Debug)]
pub struct HalfOpen {
    most: usize,
    lifetime: Duration,
    waiting: BTreeMap<EndId, Waiting>,
    /// In the order of their deadlines.
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

/// Hosts that may hold all they can get before there is no more.
const HOSTS: usize = 16;

impl HalfOpen {
    /// Up to so many, each for so long.
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

    /// There is room for another exchange with a source of this group, and at this host if that was shown. It is to be asked before anything is
    /// computed for it.
    pub fn admits(&mut self, now: Instant, group: Group, host: Option<Group>) -> bool {
        self.expire(now);
        let of_host = (self.most / HOSTS).max(1);
        self.shares.admits(group, 1, self.most) && host.is_none_or(|host| self.hosts.held(host) < of_host)
    }

    /// An exchange has this identifier.
    #[must_use]
    pub fn has(&self, c_r: EndId) -> bool {
        self.waiting.contains_key(&c_r)
    }

    /// How many there are, with those whose time is over that were not [taken out](Self::expire).
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps an exchange until message_3 comes or its time is over.
    ///
    /// # Errors
    /// [`Error::Busy`] if there is no room, or another exchange has its identifier.
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

    /// Takes out the exchange for which message_3 has come. It does not come back: one that fails is over (RFC 9528 §6).
    ///
    /// # Errors
    /// [`Error::NoExchange`] if there is none, or its time is over.
    pub fn take(&mut self, now: Instant, c_r: EndId) -> Result<Responder, Error> {
        self.expire(now);
        let responder = self.remove(c_r).ok_or(Error::NoExchange)?;
        // There are few, and what follows takes a hundred times as long.
        self.deadlines.retain(|(_, other)| *other != c_r);
        Ok(responder)
    }

    /// Takes out those whose time is over.
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
