//! Attacks with blocks: first blocks of bodies that never continue, endless transfers.

use std::time::Duration;

use conche_proto::codec::{Block, Body, Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Instant, Limits, Response};

use super::{b64, block_message};
use crate::model::Address;
use crate::support::direct::{address, changed, count_by_network};
use crate::support::fixture::body;
use crate::support::{Direct, ms, s};

const B1: OptionNumber = OptionNumber::BLOCK1;
const B2: OptionNumber = OptionNumber::BLOCK2;

fn server() -> Direct {
    let mut server = Direct::new(EndpointConfig::default());
    count_by_network(&mut server);
    server
}

fn put(id: u16, block: Block, payload: &[u8]) -> Vec<u8> {
    block_message((Type::Confirmable, Code::PUT, id), "/u", &[(B1, block)], payload)
}

/// With rounding of one entry.
fn check_caps(server: &Direct) {
    let (left, limits) = (server.endpoint.occupancy(), Limits::default());
    assert!(left.assemblies <= limits.transfers && left.representations <= limits.transfers, "{left:?}");
    assert!(left.body_bytes <= 2 * limits.assembly_bytes, "{left:?}");
}

/// Three blocks, one per 50 ms; `meanwhile` runs in between.
fn put_honestly(server: &mut Direct, from: Address, mut meanwhile: impl FnMut(&mut Direct)) -> bool {
    let sent = body(160, 1);
    for num in 0..3_u16 {
        let range = usize::from(num) * 64..(usize::from(num) * 64 + 64).min(160);
        let given = server.receive(from, &put(num, b64(num.into(), num < 2), &sent[range]));
        match given.requests()[..] {
            [request] => {
                server.respond(request, changed());
                return true;
            }
            _ if given.message().code() != Code::CONTINUE => return false,
            _ => meanwhile(server),
        }
        server.now += ms(50);
    }
    false
}

// RFC 7959 §7.1 (Q135)
#[test]
fn first_blocks_spoofed_from_many_sources_keep_within_the_caps_and_honest_clients_succeed() {
    for networks in [1, 8] {
        let mut server = server();
        let block = Block { num: 0, more: true, size: conche_proto::codec::BlockSize::B1024 };
        let mut spoofed = 0_u32;
        let (mut asked, mut served) = (0, 0);
        for client in 0..100 {
            let flood = |server: &mut Direct| {
                for _ in 0..100 {
                    spoofed += 1;
                    let from = address(100 + (spoofed % networks) as u8, spoofed as u16);
                    server.receive(from, &put(1, block, &[b'z'; 1024]));
                }
                check_caps(server);
            };
            asked += 1;
            served += u32::from(put_honestly(&mut server, address(client % 10, u16::from(client)), flood));
        }
        assert!(served * 100 >= asked * 99, "{served} of {asked} beside floods from {networks} networks");
        assert!(server.endpoint.stats().overloaded > 0, "there was a flood");
        server.run_to_end();
    }
}

#[test]
fn transfers_that_go_on_for_ever_make_room_and_end() {
    let mut server = server();
    let start = server.now;
    let (mut asked, mut served) = (0, 0);
    // A thousand peers of as many groups send one block each every 100 s.
    for n in 0..40_000_u32 {
        server.now = start + Duration::from_millis(100) * n;
        server.run(Duration::ZERO);
        let (peer, round) = ((n % 1_000) as u16, n / 1_000);
        let from = 0x2000_0000 + (u32::from(peer) << 16);
        server.receive(from, &put(round as u16, b64(round, true), &[b'z'; 64]));
        check_caps(&server);
        if n % 400 == 399 {
            asked += 1;
            served += u32::from(put_honestly(&mut server, address((n % 7) as u8, asked as u16), |_| {}));
        }
    }
    assert!(served * 100 >= asked * 99, "{served} of {asked}");
    server.run_to_end();
}

#[test]
fn a_transfer_lives_no_longer_than_it_may_however_diligently_it_is_kept_up() {
    let hour = Duration::from_secs(3_600);
    let mut server = server();
    let from = address(1, 1);
    let mut code = Code::CONTINUE;
    let mut num = 0;
    while code == Code::CONTINUE && num < 1_000 {
        code = server.receive(from, &put(num as u16, b64(num, true), &[b'z'; 64])).message().code();
        num += 1;
        server.run(s(100));
    }
    assert_eq!(code, Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(server.now, Instant::ZERO + hour + s(100));
    server.run_to_end();
}

// RFC 7959 §2.5 (Q130)
#[test]
fn abandoned_transfers_are_freed_after_their_lifetime() {
    let mut server = server();
    for n in 0..4 {
        server.receive(address(1, n), &put(n, b64(0, true), &[b'z'; 64]));
        let get = block_message((Type::Confirmable, Code::GET, 100 + n), "/l", &[(B2, b64(0, false))], b"");
        let asked = server.receive(address(1, n), &get).request();
        let large = Body::builder().payload(body(1_000, 1)).build().expect("no options");
        server.respond(asked, Response::new(Code::CONTENT, large));
    }
    let held = server.endpoint.occupancy();
    assert_eq!((held.assemblies, held.representations), (4, 4));
    server.run(s(246));
    assert_eq!(server.endpoint.occupancy().assemblies, 4);
    server.run(s(1));
    let left = server.endpoint.occupancy();
    assert_eq!((left.assemblies, left.representations, left.body_bytes), (0, 0, 0));
    server.run_to_end();
}

#[test]
fn a_peer_begins_no_more_bodies_than_its_own_bound_and_its_forgotten_ones_make_room() {
    let mut server = server();
    let begin = |server: &mut Direct, n: u16| {
        let path = format!("/{n}");
        let first = block_message((Type::Confirmable, Code::POST, n), &path, &[(B1, b64(0, true))], &[1; 64]);
        server.receive(address(1, 1), &first).message().code()
    };
    assert!((0..4).all(|n| begin(&mut server, n) == Code::CONTINUE));
    assert_eq!(begin(&mut server, 4), Code::SERVICE_UNAVAILABLE);
    server.run(s(10));
    assert_eq!(begin(&mut server, 5), Code::CONTINUE);
    assert_eq!(server.endpoint.occupancy().assemblies, 4);
}

#[test]
fn representations_of_many_peers_keep_within_the_caps_and_are_made_again() {
    let mut server = server();
    let get = |id, num| block_message((Type::Confirmable, Code::GET, id), "/l", &[(B2, b64(num, false))], b"");
    let large = |server: &mut Direct, request| {
        let large = Body::builder().payload(body(60_000, 1)).build().expect("no options");
        server.respond(request, Response::new(Code::CONTENT, large))
    };
    let mut refused = 0;
    for n in 0..2_000 {
        let given = server.receive(address(1, n), &get(1, 0));
        match given.requests()[..] {
            [asked] => drop(large(&mut server, asked)),
            _ => {
                assert_eq!(given.message().code(), Code::SERVICE_UNAVAILABLE);
                refused += 1;
            }
        }
        check_caps(&server);
    }
    assert!(refused > 1_500, "{refused} beyond the share of one network");
    server.run(s(300));
    let asked = server.receive(address(1, 0), &get(2, 7)).request();
    assert_eq!(large(&mut server, asked).message().payload(), &body(60_000, 1)[7 * 64..8 * 64]);
    server.run_to_end();
}
