//! When duplicates of requests are answered where repeats are paced.

use std::time::Duration;

use conche_proto::codec::{Code, Type};
use conche_proto::{EndpointConfig, Instant, Limits};

use crate::model::Address;
use crate::support::world::{Link, by_name, lossy_link};
use crate::support::{CLIENT, Fixture, SERVER, World, end_of, ms, request, s, wire};

const PEER: Address = 77;
const OTHER: Address = 78;

fn paced() -> EndpointConfig {
    EndpointConfig { pace_repeats: true, ..EndpointConfig::default() }
}

/// A server that is asked by hand.
struct Asked {
    world: World,
    id: u16,
}

impl Asked {
    fn new(config: EndpointConfig) -> Self {
        let mut world = World::empty();
        world.add(SERVER, config, by_name("default"), 9);
        world.node(SERVER).app = Some(Fixture::default());
        Self { world, id: 0 }
    }

    fn copy(&mut self, from: Address, id: u16) {
        self.world.inject(from, SERVER, &wire::request(Type::Confirmable, Code::GET, id, &[1], "/test"));
    }

    /// A new request, and copies of it after these times. Answers how often it was answered by the end of all of this time.
    fn exchange(&mut self, from: Address, copies: &[Duration], time: Duration) -> usize {
        let (start, before) = (self.world.now, self.answers());
        self.id += 1;
        self.copy(from, self.id);
        for &after in copies {
            self.world.run_until(start + after);
            self.copy(from, self.id);
        }
        self.world.run_until(start + time);
        self.answers() - before
    }

    /// So many exchanges whose answer takes ten seconds, with copies after 3 and 9 s.
    fn queued(&mut self, from: Address, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.exchange(from, &[s(3), s(9)], s(10))).collect()
    }

    fn answers(&mut self) -> usize {
        self.world.node(SERVER).endpoint.stats().datagrams_sent as usize
    }

    fn held(&mut self) -> u64 {
        self.world.node(SERVER).endpoint.stats().held_repeats
    }
}

#[test]
fn duplicates_are_held_once_the_next_requests_have_shown_that_repeats_were_unnecessary() {
    let mut server = Asked::new(paced());
    assert_eq!(server.queued(PEER, 9), [3, 3, 3, 3, 3, 2, 2, 2, 2]);
    let stats = *server.world.node(SERVER).endpoint.stats();
    // The last exchange has no next request yet.
    assert_eq!((stats.duplicates, stats.held_repeats, stats.spared_repeats), (18, 8, 3));

    let mut at_once = Asked::new(EndpointConfig::default());
    assert_eq!(at_once.queued(PEER, 9), [3; 9]);
}

#[test]
fn what_is_held_is_answered_one_and_a_half_answering_times_after_the_last_answer() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 5);
    assert_eq!(server.exchange(PEER, &[s(8)], ms(14_999)), 1);
    server.world.run(ms(1));
    assert_eq!(server.answers(), 17);
    // Copies that come again wait as long once more, and leave one answer.
    server.copy(PEER, server.id);
    server.world.run(ms(14_000));
    server.copy(PEER, server.id);
    server.world.run(ms(999));
    assert_eq!(server.answers(), 17);
    server.world.run(ms(1));
    assert_eq!(server.answers(), 18);
}

#[test]
fn what_is_held_leaves_when_its_client_has_waited_for_as_long_again() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 5);
    assert_eq!(server.exchange(PEER, &[s(3)], ms(5_999)), 1);
    server.world.run(ms(1));
    assert_eq!(server.answers(), 5 * 3 + 2);
}

#[test]
fn a_client_that_gives_up_soon_gets_an_answer_for_each_copy_before_that() {
    let mut server = Asked::new(paced());
    for copies in [&[s(3), s(9)][..]; 4] {
        server.exchange(PEER, copies, s(100));
    }
    server.exchange(PEER, &[s(3), s(9)], s(10));
    for _ in 0..4 {
        server.exchange(PEER, &[], s(100));
    }
    // With a timeout of one second and four retransmissions, it gives up after 31 s. Its last copy is answered in time for that.
    assert_eq!(server.exchange(PEER, &[s(1), s(3), s(7), s(15)], s(29)), 1 + 3);
    server.world.run(s(1));
    assert_eq!(server.answers(), 15 + 4 + 1 + 4);
}

#[test]
fn a_copy_that_comes_when_a_held_answer_is_due_is_answered_once() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 5);
    assert_eq!(server.exchange(PEER, &[s(8)], s(9)), 1);
    // Nobody has polled since what is held was due.
    server.world.now += s(7);
    server.copy(PEER, server.id);
    server.world.run(s(60));
    assert_eq!(server.answers(), 5 * 3 + 2);
}

#[test]
fn no_answer_is_held_for_more_than_thirty_seconds() {
    let mut server = Asked::new(paced());
    for _ in 0..4 {
        server.exchange(PEER, &[s(3), s(9)], s(100));
    }
    // Unnecessary, as it seems.
    server.exchange(PEER, &[s(3), s(9)], s(10));
    for _ in 0..4 {
        server.exchange(PEER, &[], s(100));
    }
    assert_eq!(server.exchange(PEER, &[s(20)], ms(29_999)), 1);
    server.world.run(ms(1));
    assert_eq!(server.held(), 1);
    assert_eq!(server.answers(), 15 + 4 + 2);
}

#[test]
fn where_answers_get_lost_nothing_is_held() {
    let mut server = Asked::new(paced());
    for round in 0..50 {
        // A round trip takes half a second. Of some exchanges one answer is lost, of some three; of some the next request is.
        let (copies, time): (&[Duration], _) = match round % 7 {
            0 => (&[ms(2_500)], ms(3_000)),
            3 => (&[ms(2_500), ms(7_500), ms(17_500)], ms(18_000)),
            5 => (&[], ms(3_000)),
            _ => (&[], ms(500)),
        };
        assert_eq!(server.exchange(PEER, copies, time), 1 + copies.len(), "round {round}");
    }
    assert_eq!(server.held(), 0);
}

#[test]
fn who_pauses_before_each_request_is_answered_at_once() {
    let mut server = Asked::new(paced());
    for round in 0..50 {
        let copies: &[Duration] = if round % 3 == 0 { &[ms(2_500)] } else { &[] };
        assert_eq!(server.exchange(PEER, copies, s(60)), 1 + copies.len(), "round {round}");
    }
}

#[test]
fn holding_ends_as_often_as_it_was_wrong() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 5);
    // The queue is gone, and its answers now get lost: the one that was held is what the peer was waiting for.
    assert_eq!(server.exchange(PEER, &[s(8)], s(25)), 2);
    assert_eq!(server.exchange(PEER, &[s(3), s(9)], s(19)), 3);
}

#[test]
fn one_peers_holds_are_no_other_peers() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 7);
    server.queued(OTHER, 2);
    assert_eq!(server.world.sent.iter().filter(|datagram| datagram.to == OTHER).count(), 2 * 3);
    assert_eq!(server.queued(PEER, 1), [2]);
}

#[test]
fn a_copy_of_an_earlier_request_is_answered_at_once_and_ends_holding() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 6);
    assert_eq!(server.exchange(PEER, &[s(3)], s(4)), 1);
    let before = server.answers();
    // The peer has another one outstanding, whose answer got lost. So has perhaps the one that is held.
    server.copy(PEER, server.id - 1);
    assert_eq!(server.answers(), before + 2);
    assert_eq!(server.queued(PEER, 1), [3]);
}

#[test]
fn a_request_in_the_name_of_another_costs_it_one_hold_at_most() {
    let mut server = Asked::new(paced());
    // Somebody forges what looks like a queue.
    server.queued(PEER, 6);
    // The peer itself comes: its first answer is lost, and repeated in time for it.
    assert_eq!(server.exchange(PEER, &[s(3)], ms(15_500)), 2);
    // From then on it is known how fast it is.
    for _ in 0..4 {
        server.exchange(PEER, &[], ms(500));
        assert_eq!(server.exchange(PEER, &[s(3)], ms(3_500)), 2);
    }
}

#[test]
fn of_more_peers_than_there_is_room_for_the_one_that_has_sent_no_duplicate_for_longest_is_answered_at_once() {
    let limits = Limits { paced_peers: 1, ..Limits::default() };
    let mut server = Asked::new(EndpointConfig { limits, ..paced() });
    server.queued(PEER, 5);
    assert_eq!(server.exchange(PEER, &[s(3)], s(4)), 1);
    let held = server.id;
    // Another peer's duplicate makes room: both are answered.
    assert_eq!(server.exchange(OTHER, &[s(1)], s(1)), 3);
    server.copy(PEER, held);
    assert_eq!(server.answers(), 5 * 3 + 1 + 3 + 1);
}

#[test]
fn what_the_full_table_is_about_to_forget_is_not_held() {
    let limits = Limits { deduplication_bytes: 6_000, ..Limits::default() };
    let mut server = Asked::new(EndpointConfig { limits, ..paced() });
    server.queued(PEER, 5);
    assert_eq!(server.exchange(PEER, &[s(3)], s(4)), 1);
    let before = server.answers();
    // Requests of many others fill the table.
    for other in 0..60 {
        server.copy(OTHER + 1 + other, 9);
    }
    assert_eq!(server.answers(), before + 60 + 1);
}

#[test]
fn a_full_table_answers_what_is_held_and_nobody_unlearns() {
    let limits = Limits { deduplication_bytes: 6_000, ..Limits::default() };
    let mut server = Asked::new(EndpointConfig { limits, ..paced() });
    server.queued(PEER, 5);
    assert_eq!(server.exchange(PEER, &[s(3)], s(4)), 1);
    for other in 0..60 {
        server.copy(OTHER + 1 + other, 9);
    }
    server.world.run(s(6));
    assert_eq!(server.exchange(PEER, &[s(3)], s(4)), 1);
}

#[test]
fn what_is_held_of_a_peer_that_has_had_several_outstanding_leaves_with_its_next_request() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 2);
    server.copy(PEER, server.id - 1);
    server.queued(PEER, 5);
    let spared = |server: &mut Asked| server.world.node(SERVER).endpoint.stats().spared_repeats;
    // With each of them leaves what is held of the one before.
    assert_eq!(server.exchange(PEER, &[s(8)], s(9)), 2);
    assert_eq!(server.exchange(PEER, &[], s(1)), 2);
    assert_eq!(spared(&mut server), 0);
}

#[test]
fn with_room_for_no_peer_nobody_is_paced() {
    let limits = Limits { paced_peers: 0, ..Limits::default() };
    let mut server = Asked::new(EndpointConfig { limits, ..paced() });
    assert_eq!(server.queued(PEER, 9), [3; 9]);
    assert_eq!(server.world.node(SERVER).endpoint.occupancy().paced_peers, 0);
}

#[test]
fn a_path_that_is_reset_takes_with_it_what_was_learnt_of_repeats() {
    let mut server = Asked::new(paced());
    server.queued(PEER, 6);
    assert_eq!(server.exchange(PEER, &[s(3)], s(4)), 1);
    let (now, before) = (server.world.now, server.answers());
    let endpoint = &mut server.world.node(SERVER).endpoint;
    assert_eq!(endpoint.occupancy().paced_peers, 1);
    endpoint.reset_path(now, &PEER);
    assert_eq!((endpoint.occupancy().paced_peers, endpoint.occupancy().held_repeats), (0, 0));
    // What was held leaves.
    server.world.settle(SERVER);
    assert_eq!(server.answers(), before + 1);
    assert_eq!(server.queued(PEER, 1), [3]);
}

#[test]
fn who_asks_at_fixed_intervals_looks_like_one_behind_a_queue_and_is_answered_in_time_all_the_same() {
    let mut server = Asked::new(paced());
    server.exchange(PEER, &[s(2)], s(10));
    for _ in 0..4 {
        server.exchange(PEER, &[], s(10));
    }
    // Two answers were lost, but the third came in the second half of the interval.
    assert_eq!(server.exchange(PEER, &[s(2), s(6)], s(10)), 3);
    // So the next ones that get lost are answered later, and no later than what its client waits for.
    assert_eq!(server.exchange(PEER, &[s(2)], ms(3_999)), 1);
    server.world.run(ms(1));
    assert_eq!(server.answers(), 2 + 4 + 3 + 2);
}

/// Twenty exchanges one after the other, and how many datagrams the server sent for them.
fn twenty_exchanges(config: &EndpointConfig, link: Link) -> (Instant, usize) {
    let mut world = World::pair_of(config, &by_name("default"), 7);
    world.link = link;
    for _ in 0..20 {
        let asked = world.request(request(Code::GET, "/test"));
        while end_of(world.events(CLIENT), asked).is_none() {
            assert!(world.step(), "an exchange ends");
        }
    }
    (world.now, world.sent_by(SERVER).count())
}

#[test]
fn a_client_behind_a_queue_gets_two_thirds_of_the_repeats() {
    let queue = || -> Link { Box::new(|datagram| vec![if datagram.from == SERVER { s(10) } else { ms(50) }]) };
    let (at, at_once) = twenty_exchanges(&EndpointConfig::default(), queue());
    let (paced_at, paced) = twenty_exchanges(&paced(), queue());
    assert_eq!(at, paced_at, "nobody waits for longer");
    assert!((paced - 20) * 3 <= (at_once - 20) * 2, "{paced} instead of {at_once}");
}

#[test]
fn a_client_behind_a_lossy_link_notices_nothing() {
    for seed in 0..20 {
        let link = || lossy_link(seed, 30, 0, 400);
        assert_eq!(twenty_exchanges(&EndpointConfig::default(), link()), twenty_exchanges(&paced(), link()));
    }
}
