//! Ten thousand observers of one resource, over a link with 1 % loss.

use std::time::Duration;

use conche_proto::EndpointConfig;
use conche_proto::codec::Type;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::net::{Net, SERVER};
use crate::support::{ms, s};

const OBSERVERS: u32 = 10_000;

// RFC 7641 §1.3 (Q303)
#[test]
fn ten_thousand_observers_get_the_last_state_through_loss_none_more_often_than_its_rto() {
    let mut net = Net::with(OBSERVERS, "cocoa", &EndpointConfig::default());
    let mut random = ChaCha8Rng::seed_from_u64(1);
    net.link = Box::new(move |_| (random.next_u32() % 100 > 0).then(|| ms(20 + u64::from(random.next_u32() % 60))));
    for client in 1..=OBSERVERS {
        net.subscribe(client);
    }
    net.run(s(60));
    net.sent.clear();
    let mut rto = vec![Duration::MAX; OBSERVERS as usize + 1];
    for round in 1..=10 {
        // Three consecutive states, the second of which is skipped.
        for state in 0..3 {
            net.change(&(round * 10 + state).to_string());
            net.run(ms(if state < 2 { 50 } else { 9_900 }));
        }
        for client in 1..=OBSERVERS {
            let peer = net.endpoint(SERVER).snapshot(&client).expect("a peer");
            let known = &mut rto[client as usize];
            *known = (*known).min(peer.congestion.rto);
        }
        let occupancy = net.endpoint(SERVER).occupancy();
        assert!(occupancy.exchanges <= OBSERVERS as usize && occupancy.outputs == 0, "{occupancy:?}");
        assert!(occupancy.queued <= occupancy.observers, "at most one waits for each: {occupancy:?}");
    }
    // No more changes. One in a hundred of the last messages was lost.
    let known = |net: &Net| (1..=OBSERVERS).filter(|&client| net.known(client).as_deref() == Some("102")).count();
    assert!(known(&net) < OBSERVERS as usize, "the link must lose what matters");
    net.run(s(150));
    assert_eq!(net.endpoint(SERVER).observers(super::net::TOPIC), OBSERVERS as usize, "nobody is lost");
    assert_eq!(known(&net), OBSERVERS as usize, "nobody is behind");
    for client in 1..=OBSERVERS {
        let numbers: Vec<u32> = net.states(client).iter().map(|state| state.parse().expect("a number")).collect();
        assert!(numbers.is_sorted(), "nobody goes back: {numbers:?}");
    }
    let mut last = vec![None; OBSERVERS as usize + 1];
    for sent in net.notifications() {
        let at = last[sent.to as usize].replace((sent.at, sent.ty()));
        if let Some((before, Type::NonConfirmable)) = at {
            let (gap, rto) = (sent.at - before, rto[sent.to as usize]);
            assert!(gap >= rto, "{} after {gap:?}, its RTO is {rto:?}", sent.to);
        }
    }
}
