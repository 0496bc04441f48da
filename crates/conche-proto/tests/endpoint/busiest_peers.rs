//! The search for the busiest peers.

use conche_proto::codec::{Body, Code};
use conche_proto::{BusiestPeersSearch, Limits, Request};

use crate::support::Direct;

fn busy(peers: u32) -> Direct {
    let mut client = Direct::with_limits(Limits { queue_per_peer: 10, peers: peers as usize, ..Limits::default() });
    for peer in 0..peers {
        for number in 0..(peer % 7).max(1) {
            let exchange =
                client.endpoint.request(client.now, peer, Request::new(Code::GET, Body::EMPTY)).expect("room");
            if peer % 7 == 0 && number == 0 {
                client.endpoint.cancel(client.now, exchange);
            }
        }
        client.drain();
    }
    client
}

#[test]
fn a_search_in_parts_returns_the_busiest_peers_as_a_single_search_does() {
    let client = busy(1_000);
    for most in [0, 1, 5, 200, 999, 2_000] {
        let at_once = client.endpoint.busiest(most);
        let loads: Vec<_> = at_once.iter().map(|(_, peer)| usize::from(peer.outstanding) + peer.queued).collect();
        assert_eq!(loads.len(), most.min(1_000));
        assert!(loads.is_sorted_by(|one, next| one >= next), "{loads:?}");
        assert!(loads.first().is_none_or(|&most| most == 6));
        for places in [1, 7, 256, 1_000, usize::MAX] {
            let (mut survey, mut parts) = (BusiestPeersSearch::of(most), 1);
            let found = loop {
                match survey.advance(&client.endpoint, places) {
                    Some(found) => break found,
                    None => parts += 1,
                }
            };
            let peers = |found: &[(u32, _)]| found.iter().map(|(peer, _)| *peer).collect::<Vec<_>>();
            assert_eq!(peers(&found), peers(&at_once), "{most} of all, {places} places at a time");
            assert!(most == 0 || parts >= 1_000 / places, "{parts} parts");
        }
    }
}

#[test]
fn a_search_reports_peers_in_their_state_at_its_end() {
    let mut client = busy(20);
    let mut survey = BusiestPeersSearch::of(100);
    assert!(survey.advance(&client.endpoint, 10).is_none());
    client.run(std::time::Duration::from_secs(100_000));
    for peer in 100..120 {
        client.endpoint.request(client.now, peer, Request::new(Code::GET, Body::EMPTY)).expect("the idle make room");
    }
    let found = survey.advance(&client.endpoint, usize::MAX).expect("the rest at once");
    assert!(!found.is_empty());
    for (peer, told) in found {
        assert!((100..120).contains(&peer) && told.outstanding == 1, "{peer}: {told:?}");
    }
}
