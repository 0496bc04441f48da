//! Random sequences of exchanges, transfers and observations: at the end, nothing is held.

use conche_proto::codec::{Code, Type};
use conche_proto::endpoint::Occupancy;
use conche_proto::{
    EndpointConfig, Event, ExchangeId, Input, Reliability, Response, SubscriptionId, TransmissionParameters,
};
use proptest::prelude::*;

use crate::observe::net::{Net, SERVER, get, write};
use crate::support::direct::content;
use crate::support::{ms, s, wire};

const CLIENT: u32 = 1;

struct Script {
    net: Net,
    exchanges: Vec<(u32, ExchangeId)>,
    subscriptions: Vec<SubscriptionId>,
}

impl Script {
    fn step(&mut self, number: usize, what: u8, detail: u8) {
        let (now, net) = (self.net.now, &mut self.net);
        let reliability = [Reliability::Confirmable, Reliability::NonConfirmable, Reliability::NeverConfirmable]
            [usize::from(detail % 3)];
        let large = "x".repeat(usize::from(detail) * 40);
        match what {
            0 | 1 => {
                let request = if what == 0 { get() } else { write(Code::PUT, &large) };
                let mut request = request.with_reliability(reliability);
                request.timeout = detail.is_multiple_of(5).then(|| ms(u64::from(detail) * 100));
                for _ in 0..=detail % 4 {
                    let id = net.endpoint(CLIENT).request(now, SERVER, request.clone());
                    self.exchanges.extend(id.map(|id| (CLIENT, id)));
                }
            }
            2 => {
                let id = net.endpoint(CLIENT).ping(now, SERVER);
                self.exchanges.extend(id.map(|id| (CLIENT, id)));
            }
            // Exchanges opened by the endpoint itself are cancelled as well.
            3 if !self.exchanges.is_empty() => {
                let (node, id) = self.exchanges[usize::from(detail) % self.exchanges.len()];
                net.endpoint(node).cancel(now, id);
            }
            4 => {
                let (node, peer) = if detail.is_multiple_of(2) { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
                let last = net.sent.iter().rev().find(|sent| sent.from == node).map(|sent| sent.message.clone());
                let quoted = last.map(|message| message.view().as_bytes().to_vec()).filter(|_| detail % 4 > 1);
                let input = Input::Unreachable { peer, quoted: quoted.as_deref() };
                net.endpoint(node).handle(now, input).expect("drained");
            }
            5 | 6 => {
                let (to, from) = if detail.is_multiple_of(2) { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
                let last = net.sent.iter().rev().filter(|sent| sent.from == to).nth(usize::from(detail / 2 % 4));
                if let Some(id) = last.map(|sent| sent.message.header().id) {
                    let empty = if what == 5 { wire::reset(id) } else { wire::empty_ack(id) };
                    net.inject(from, to, &empty);
                }
            }
            7 => {
                let subscribed = net.endpoint(CLIENT).subscribe(now, SERVER, get().with_reliability(reliability));
                self.exchanges.extend(subscribed.iter().map(|&(id, _)| (CLIENT, id)));
                self.subscriptions.extend(subscribed.map(|(_, id)| id));
            }
            8 if !self.subscriptions.is_empty() => {
                let chosen = usize::from(detail) % self.subscriptions.len();
                let client = net.endpoint(CLIENT);
                match detail % 3 {
                    0 => drop(client.reregister(now, self.subscriptions[chosen])),
                    1 => drop(client.unsubscribe(now, self.subscriptions.swap_remove(chosen))),
                    _ => drop(client.forget(now, self.subscriptions.swap_remove(chosen))),
                }
            }
            9 | 10 => {
                net.resource.reliability = (!detail.is_multiple_of(4)).then_some(reliability);
                net.change(if what == 9 { "small" } else { &large });
            }
            11 => net.resource.mute = detail.is_multiple_of(2),
            12 => self.answer_late(detail, reliability),
            // A separate response or notification is superseded.
            13 if !self.exchanges.is_empty() => {
                let (node, id) = self.exchanges[usize::from(detail) % self.exchanges.len()];
                let _ = net.endpoint(node).supersede(id, content("newer"));
            }
            14 => {
                let (loss, mut count) = (u32::from(detail) % 130, number as u32);
                net.link = Box::new(move |_| {
                    count = count.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                    ((count >> 16) % 100 >= loss).then(|| ms(5 + u64::from((count >> 8) % 2_000)))
                });
            }
            _ => self.net.run(s(u64::from(detail))),
        }
        for node in [SERVER, CLIENT] {
            self.net.settle(node);
        }
    }

    /// A leaked slot would stay with a peer kept by an observation.
    fn assert_no_slot_without_an_exchange(&mut self) {
        for (node, peer) in PAIRS {
            let endpoint = self.net.endpoint(node);
            let Some(snapshot) = endpoint.snapshot(&peer) else { continue };
            let held = (usize::from(snapshot.outstanding), snapshot.queued);
            let open = endpoint.occupancy();
            assert!(held.0 + held.1 <= open.exchanges && held.1 == open.queued, "node {node}: {snapshot:?}, {open:?}");
        }
    }

    fn answer_late(&mut self, detail: u8, reliability: Reliability) {
        let now = self.net.now;
        let left: Vec<_> = self.net.events(SERVER).filter_map(request_of).collect();
        for id in left.into_iter().rev().take(usize::from(detail % 8)) {
            let response = Response { reliability: Some(reliability), ..content("late") };
            if let Ok(Some(exchange)) = self.net.endpoint(SERVER).respond(now, id, response) {
                self.exchanges.push((SERVER, exchange));
            }
        }
    }
}

const PAIRS: [(u32, u32); 2] = [(SERVER, CLIENT), (CLIENT, SERVER)];

fn request_of(event: &Event<u32>) -> Option<conche_proto::RequestId> {
    if let Event::Request { id, .. } = event { Some(*id) } else { None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    // RFC 7252 §4.2, §4.7
    #[test]
    fn after_any_mix_of_ends_no_slot_timer_or_queue_entry_is_held(
        (controller, nstart) in (0..3_usize, 1..4_u16),
        steps in prop::collection::vec((0..16_u8, any::<u8>(), 0..3_000_u64), 1..80),
    ) {
        let nstart = if controller == 0 { 1 } else { nstart };
        let transmission = TransmissionParameters { nstart, ..TransmissionParameters::default() };
        let config = EndpointConfig { transmission, ..EndpointConfig::default() };
        let net = Net::with(1, ["default", "cocoa", "fasor"][controller], &config);
        let mut script = Script { net, exchanges: Vec::new(), subscriptions: Vec::new() };
        for (number, (what, detail, pause)) in steps.into_iter().enumerate() {
            script.step(number, what, detail);
            script.net.run(ms(pause));
            script.assert_no_slot_without_an_exchange();
        }
        script.net.run(s(400));
        script.assert_no_slot_without_an_exchange();
        // The applications release everything that only they can end.
        let Script { mut net, subscriptions, .. } = script;
        let now = net.now;
        net.resource.mute = false;
        let left: Vec<_> = net.events(SERVER).filter_map(request_of).collect();
        left.into_iter().for_each(|id| net.endpoint(SERVER).ignore(now, id));
        for id in subscriptions {
            net.endpoint(CLIENT).forget(now, id);
        }
        net.settle(CLIENT);
        net.resource.exists = false;
        net.resource.reliability = None;
        net.tell();
        net.run(s(5_000));
        for node in [SERVER, CLIENT] {
            let held = net.endpoint(node).occupancy();
            let mut nothing = Occupancy::default();
            nothing.peers = held.peers;
            prop_assert_eq!(held, nothing, "of node {}", node);
        }
    }
}

#[test]
fn a_script_covers_queue_expiry_timeouts_and_abandoned_transfers() {
    // An unanswered NON, an expired queue, an abandoned transfer.
    let mut script = Script { net: Net::of(1), exchanges: Vec::new(), subscriptions: Vec::new() };
    script.step(0, 14, 129);
    for (what, detail) in [(0, 1), (0, 7), (1, 99), (1, 255)] {
        script.step(1, what, detail);
    }
    script.net.run(s(1_000));
    let failures: std::collections::BTreeSet<String> = script
        .net
        .events(CLIENT)
        .filter_map(|event| match event {
            Event::Failed { reason, .. } => Some(format!("{reason:?}")),
            _ => None,
        })
        .collect();
    assert!(failures.contains("QueueExpired") && failures.contains("TimedOut"), "{failures:?}");
    assert!(script.net.sent.iter().any(|sent| sent.message.header().ty == Type::NonConfirmable));
}
