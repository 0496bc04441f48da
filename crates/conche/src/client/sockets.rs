//! Selects the socket, and so the driver, of a request.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::Error;
use crate::address::Address;
use crate::builder::Setup;
use crate::driver::Handle;
use crate::socket::Binding;

#[derive(Debug)]
pub(super) enum Sockets {
    /// Opened on first use.
    Own(Box<Own>),
    Server(Handle),
}

#[derive(Debug)]
pub(super) struct Own {
    start: Start,
    activity: Arc<Activity>,
    v4: Slot,
    v6: Slot,
}

/// A socket, and others at further ports for destinations that exceed its 64 512 message IDs per
/// EXCHANGE_LIFETIME (RFC 7252 §4.4).
#[derive(Debug)]
pub(super) struct Slot {
    binding: Binding,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    handles: Vec<Handle>,
    /// Socket index of destinations that once used up the first's message IDs.
    others: HashMap<SocketAddr, usize>,
}

/// Maximum sockets per IP version: 16 000 messages per second to one destination.
const MAX_SOCKETS: usize = 64;

pub(super) struct Start {
    setup: Setup,
    /// Whether a destination must keep its socket, which holds its OSCORE keys (RFC 8613).
    is_pinned: Box<dyn Fn(SocketAddr) -> bool + Send + Sync>,
    is_closed: AtomicBool,
}

impl Start {
    fn start(&self, binding: &Binding) -> Result<Handle, Error> {
        let (handle, _task) = self.setup.start_client(binding)?;
        Ok(handle)
    }
}

impl Sockets {
    pub(super) fn own(setup: Setup, v4: Binding, v6: Binding) -> Self {
        let is_pinned = setup.settings.keys_toward();
        let [v4, v6] = [v4, v6].map(|binding| Slot { binding, open: Mutex::default() });
        let start = Start { setup, is_pinned: Box::new(is_pinned), is_closed: AtomicBool::new(false) };
        Self::Own(Box::new(Own { start, activity: Arc::default(), v4, v6 }))
    }

    pub(super) fn toward(&self, to: SocketAddr) -> Result<(Handle, Address), Error> {
        // The IPv6 socket does not reach mapped addresses.
        let to = Address::from(to).canonical();
        let handle = match self {
            Self::Server(handle) => handle.clone(),
            Self::Own(own) => own.slot(to).toward(to, &own.start)?,
        };
        match handle.reach(to) {
            Some(address) => Ok((handle, address)),
            None => Err(Error::IpVersion { peer: to, local: handle.local() }),
        }
    }

    pub(super) fn known(&self, to: SocketAddr) -> Option<Handle> {
        let to = Address::from(to).canonical();
        match self {
            Self::Server(handle) => Some(handle.clone()),
            Self::Own(own) => {
                let open = own.slot(to).lock();
                open.handles.get(open.others.get(&to).copied().unwrap_or_default()).cloned()
            }
        }
    }

    pub(super) fn open(&self) -> Vec<Handle> {
        match self {
            Self::Server(handle) => vec![handle.clone()],
            Self::Own(own) => [&own.v4, &own.v6].into_iter().flat_map(|slot| slot.lock().handles.clone()).collect(),
        }
    }
}

/// Counts the requests of a client, which [`Sockets::close`] lets finish.
#[derive(Debug, Default)]
struct Activity {
    requests: AtomicUsize,
    idle: Notify,
}

impl Activity {
    async fn idle(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // Before the count is read, so that no notification is lost.
            idle.as_mut().enable();
            if self.requests.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// A request, with all its exchanges and the time between them.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Clone for ActiveRequest {
    fn clone(&self) -> Self {
        Self::begin(&self.0)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::Release) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Sockets {
    /// Counts a request while the result exists; a server counts those of its client itself.
    pub(super) fn begin_request(&self) -> Option<ActiveRequest> {
        match self {
            Self::Server(_) => None,
            Self::Own(own) => Some(ActiveRequest::begin(&own.activity)),
        }
    }

    /// Lets requests finish, refuses others, and ends the drivers.
    pub(super) async fn close(&self, within: Duration) {
        let Self::Own(own) = self else { return };
        let begun = Instant::now();
        match begun.checked_add(within) {
            Some(end) => {
                let _ = timeout_at(end, own.activity.idle()).await;
            }
            None => own.activity.idle().await,
        }
        own.start.is_closed.store(true, Ordering::Release);
        // A socket that was opened meanwhile is seen behind its lock.
        let handles = self.open();
        let left = within.saturating_sub(begun.elapsed());
        handles.iter().for_each(|handle| handle.close(left));
        for handle in handles {
            handle.stopped().await;
        }
    }
}

impl Own {
    fn slot(&self, to: SocketAddr) -> &Slot {
        if to.is_ipv4() { &self.v4 } else { &self.v6 }
    }
}

impl Slot {
    fn toward(&self, to: SocketAddr, start: &Start) -> Result<Handle, Error> {
        let mut open = self.lock();
        if start.is_closed.load(Ordering::Acquire) {
            return Err(Error::Stopped);
        }
        let Open { handles, others } = &mut *open;
        let (count, before) = (handles.len(), others.get(&to).copied().unwrap_or_default());
        let has_ids = |handle: &Handle| !handle.is_short_of_ids(to);
        if let Some(handle) = handles.get(before).filter(|handle| has_ids(handle) && !handle.is_stopped()) {
            return Ok(handle.clone());
        }
        let mut in_turn = (before..count).chain(0..before.min(count));
        let chosen = match in_turn.find(|index| handles.get(*index).is_some_and(has_ids)) {
            _ if (start.is_pinned)(to) => before,
            Some(index) => index,
            None if count == 0 => 0,
            None if self.binding.chooses_port() && count < MAX_SOCKETS => count,
            None => before,
        };
        if chosen == count {
            match start.start(&self.binding) {
                Ok(handle) => handles.push(handle),
                Err(error) if count == 0 => return Err(error),
                Err(error) => {
                    debug!(peer = %to, %error, "no other socket for more messages than there are IDs");
                    return Ok(handles[before].clone());
                }
            }
        }
        if chosen != before {
            others.insert(to, chosen);
        }
        let handle = &mut handles[chosen];
        if handle.is_stopped() {
            *handle = start.start(&self.binding)?;
        }
        Ok(handle.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Start")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::*;
    use crate::Client;

    fn port(client: &Client, to: SocketAddr) -> u16 {
        client.sockets.toward(to).expect("the loopback can be reached").0.local().port()
    }

    fn use_up_ids(client: &Client, to: SocketAddr, seconds: u64) {
        let (handle, _) = client.sockets.toward(to).expect("the loopback can be reached");
        handle.use_up_ids(to, Instant::now() + Duration::from_secs(seconds));
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_without_free_message_ids_is_replaced_until_they_expire() {
        let (client, busy, quiet) = (Client::new(), ([127, 0, 0, 1], 9).into(), ([127, 0, 0, 2], 9).into());
        let first = port(&client, busy);
        use_up_ids(&client, busy, 247);
        let second = port(&client, busy);
        assert_ne!(second, first);
        assert_eq!((port(&client, busy), port(&client, quiet)), (second, first), "nobody else has to move");
        advance(Duration::from_secs(100)).await;
        use_up_ids(&client, busy, 247);
        let third = port(&client, busy);
        assert!(third != first && third != second);
        advance(Duration::from_secs(200)).await;
        use_up_ids(&client, busy, 247);
        assert_eq!(port(&client, busy), first, "what is free again is used before another is opened");
        assert_eq!(client.sockets.open().len(), 3);
    }

    #[cfg(feature = "oscore")]
    #[tokio::test(start_paused = true)]
    async fn oscore_requests_use_the_port_that_holds_the_keys() {
        use crate::oscore::{Credentials, EndId, Keys};
        let ids = [b"c", b"s"].map(|id| EndId::new(id).expect("short"));
        let keys = Keys::for_this_run(Credentials::new(*b"of 16 such bytes", ids[0], ids[1])).expect("legal");
        let secured = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
        let client = Client::builder().oscore_for("127.0.0.1/32".parse().expect("a prefix"), keys);
        let (client, other) = (client.build().expect("legal settings"), ([127, 0, 0, 2], 9).into());
        let first = port(&client, secured);
        use_up_ids(&client, secured, 247);
        assert_eq!(port(&client, secured), first);
        use_up_ids(&client, other, 247);
        assert_ne!(port(&client, other), first);
        assert_eq!(port(&client, secured), first, "not even when there is another port");
    }

    #[tokio::test(start_paused = true)]
    async fn sockets_are_not_without_number() {
        let (client, busy) = (Client::new(), ([127, 0, 0, 1], 9).into());
        for _ in 0..2 * MAX_SOCKETS {
            use_up_ids(&client, busy, 247);
        }
        assert_eq!(client.sockets.open().len(), MAX_SOCKETS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_a_port_of_its_own_waits() {
        let local = std::net::UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
        let address = local.local_addr().expect("it is bound");
        let client = Client::builder().socket(local).build().expect("it has defaults");
        let busy = ([127, 0, 0, 1], 9).into();
        use_up_ids(&client, busy, 247);
        assert_eq!(port(&client, busy), address.port());
        assert_eq!(client.sockets.open().len(), 1);
    }
}
