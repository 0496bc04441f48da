//! Queues without a socket.

use super::*;
use std::net::SocketAddr;

fn address(port: u16) -> Address {
    SocketAddr::from(([192, 0, 2, 1], port)).into()
}

fn admission(queue: usize) -> Arc<Admission> {
    let limits = Limits { queue, queue_per_peer: 2, ..Limits::default() };
    Admission::new(Waiting { per_destination: 3, total: 5 }, &limits)
}

#[test]
fn what_is_full_and_which_setting_raises_it_is_said() {
    let admission = admission(100);
    let join = |port, policy| admission.join(address(port), policy);
    let _waiting: Vec<_> = (0..2).map(|_| join(1, QueuePolicy::Wait).expect("there is room")).collect();
    let busy = join(1, QueuePolicy::Try).expect_err("two wait");
    assert_eq!((busy.what, busy.limit), (Full::PeerQueue, 2));
    let _third = join(1, QueuePolicy::Wait).expect("there is room");
    let busy = join(1, QueuePolicy::Wait).expect_err("three wait");
    assert_eq!((busy.what, busy.limit), (Full::DestinationQueue, 3));
    assert!(busy.to_string().ends_with("or raise Waiting::per_destination"), "{busy}");
    let _others: Vec<_> = (2..4).map(|port| join(port, QueuePolicy::Wait).expect("there is room")).collect();
    assert_eq!(join(9, QueuePolicy::Wait).expect_err("five wait").what, Full::TotalQueue);
}

#[test]
fn nothing_is_left_of_places_that_were_dropped() {
    let admission = admission(100);
    for _ in 0..10 {
        let mut permits: Vec<_> =
            (0..3).map(|_| admission.join(address(1), QueuePolicy::Wait).expect("there is room")).collect();
        assert_eq!(permits.iter_mut().filter_map(|permit| permit.try_acquire().then_some(())).count(), 2);
    }
    let queues = admission.lock();
    assert!(queues.by_destination.is_empty() && queues.total == 0, "{queues:?}");
    assert_eq!(admission.endpoint_queue.available_permits(), 100);
}

#[tokio::test]
async fn a_line_is_first_come_first_served() {
    let admission = admission(100);
    let mut ahead: Vec<_> =
        (0..2).map(|_| admission.join(address(1), QueuePolicy::Wait).expect("there is room")).collect();
    assert!(ahead.iter_mut().all(Permit::try_acquire));
    let mut last = admission.join(address(1), QueuePolicy::Wait).expect("there is room");
    assert!(!last.try_acquire());
    let waiting = tokio::spawn(async move {
        last.acquire().await;
        last
    });
    tokio::task::yield_now().await;
    drop(ahead.pop());
    let mut late = admission.join(address(1), QueuePolicy::Wait).expect("there is room");
    assert!(!late.try_acquire(), "the one that waits is before it");
    waiting.await.expect("it gets its turn");
}

#[tokio::test]
async fn a_destination_with_a_long_line_leaves_the_endpoints_queue_to_others() {
    let admission = admission(3);
    let mut stuffed: Vec<_> =
        (0..3).map(|_| admission.join(address(1), QueuePolicy::Wait).expect("there is room")).collect();
    assert_eq!(stuffed.iter_mut().filter_map(|permit| permit.try_acquire().then_some(())).count(), 2);
    assert!(admission.join(address(2), QueuePolicy::Wait).expect("there is room").try_acquire());
}
