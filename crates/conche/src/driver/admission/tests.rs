//! Queues without a socket.

use super::*;
use std::net::SocketAddr;

fn address(port: u16) -> Address {
    SocketAddr::from(([192, 0, 2, 1], port)).into()
}

fn turns(queue: usize) -> Arc<Turns> {
    let limits = Limits { queue, queue_per_peer: 2, ..Limits::default() };
    Turns::new(Waiting { per_destination: 3, total: 5 }, &limits)
}

#[test]
fn what_is_full_and_which_setting_raises_it_is_said() {
    let turns = turns(100);
    let join = |port, patience| turns.join(address(port), patience);
    let _waiting: Vec<_> = (0..2).map(|_| join(1, Patience::Wait).expect("there is room")).collect();
    let busy = join(1, Patience::Hurry).expect_err("two wait");
    assert_eq!((busy.what, busy.limit), (Full::PeerQueue, 2));
    let _third = join(1, Patience::Wait).expect("there is room");
    let busy = join(1, Patience::Wait).expect_err("three wait");
    assert_eq!((busy.what, busy.limit), (Full::Line, 3));
    assert!(busy.to_string().ends_with("or raise Waiting::per_destination"), "{busy}");
    let _others: Vec<_> = (2..4).map(|port| join(port, Patience::Wait).expect("there is room")).collect();
    assert_eq!(join(9, Patience::Wait).expect_err("five wait").what, Full::Lines);
}

#[test]
fn nothing_is_left_of_places_that_were_dropped() {
    let turns = turns(100);
    for _ in 0..10 {
        let mut places: Vec<_> =
            (0..3).map(|_| turns.join(address(1), Patience::Wait).expect("there is room")).collect();
        assert_eq!(places.iter_mut().filter_map(|place| place.is_next().then_some(())).count(), 2);
    }
    let lines = turns.lock();
    assert!(lines.by_destination.is_empty() && lines.places == 0, "{lines:?}");
    assert_eq!(turns.queue.available_permits(), 100);
}

#[tokio::test]
async fn a_line_is_first_come_first_served() {
    let turns = turns(100);
    let mut ahead: Vec<_> = (0..2).map(|_| turns.join(address(1), Patience::Wait).expect("there is room")).collect();
    assert!(ahead.iter_mut().all(Place::is_next));
    let mut last = turns.join(address(1), Patience::Wait).expect("there is room");
    assert!(!last.is_next());
    let waiting = tokio::spawn(async move {
        last.turn().await;
        last
    });
    tokio::task::yield_now().await;
    drop(ahead.pop());
    let mut late = turns.join(address(1), Patience::Wait).expect("there is room");
    assert!(!late.is_next(), "the one that waits is before it");
    waiting.await.expect("it gets its turn");
}

#[tokio::test]
async fn a_destination_with_a_long_line_leaves_the_endpoints_queue_to_others() {
    let turns = turns(3);
    let mut stuffed: Vec<_> = (0..3).map(|_| turns.join(address(1), Patience::Wait).expect("there is room")).collect();
    assert_eq!(stuffed.iter_mut().filter_map(|place| place.is_next().then_some(())).count(), 2);
    assert!(turns.join(address(2), Patience::Wait).expect("there is room").is_next());
}
