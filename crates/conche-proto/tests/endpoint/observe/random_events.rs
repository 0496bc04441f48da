//! Random events around observations, after which nothing is held.

use conche_proto::codec::{Code, Type};
use conche_proto::{EndpointConfig, Event, Limits, Reliability, SubscriptionId};
use proptest::prelude::*;

use super::net::{Net, SERVER, TOPIC, get, registration, write};
use crate::support::{ms, s, wire};

const CLIENTS: u32 = 3;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_happens_every_observation_ends_and_nothing_is_held(
        seed in any::<u8>(),
        steps in prop::collection::vec((0..14_u8, 1..=CLIENTS, any::<u8>()), 1..60),
    ) {
        let limits = Limits { observers: 8, observers_per_peer: 3, subscriptions: 4, ..Limits::default() };
        let config = EndpointConfig { limits, ..EndpointConfig::default() };
        let mut net = Net::with(CLIENTS, ["default", "cocoa", "fasor"][usize::from(seed % 3)], &config);
        let mut open: Vec<(u32, SubscriptionId)> = Vec::new();
        for (number, (what, client, detail)) in steps.into_iter().enumerate() {
            let now = net.now;
            let chosen = (!open.is_empty()).then(|| usize::from(detail) % open.len());
            match (what, chosen) {
                (0 | 1, _) => {
                    if let Ok((_, id)) = net.endpoint(client).subscribe(now, SERVER, get()) {
                        open.push((client, id));
                    }
                }
                (2, Some(chosen)) => { let (client, id) = open[chosen]; let _ = net.endpoint(client).reregister(now, id); }
                (3, Some(chosen)) => { let (client, id) = open.swap_remove(chosen); let _ = net.endpoint(client).unsubscribe(now, id); }
                (4, Some(chosen)) => { let (client, id) = open.swap_remove(chosen); net.endpoint(client).forget(now, id); }
                (5, _) => { net.request(client, write(Code::PUT, &number.to_string())); }
                (6, _) => { let exchange = net.request(client, get()); net.endpoint(client).cancel(now, exchange); }
                (7, _) => net.inject(client, SERVER, &registration(Type::NonConfirmable, number as u16, &[detail % 4], detail / 128)),
                (8, _) => {
                    let last = net.sent.iter().rev().find(|sent| sent.notifies()).map(|sent| (sent.to, sent.message.header().id));
                    if let Some((to, id)) = last {
                        net.inject(to, SERVER, &wire::reset(id));
                    }
                }
                (9, _) => {
                    let input = conche_proto::Input::Unreachable { peer: client, quoted: None };
                    net.endpoint(SERVER).handle(now, input).expect("drained");
                }
                (10, _) => {
                    if let Some(observer) = net.resource.observers.pop() {
                        net.endpoint(SERVER).dismiss(now, observer);
                    }
                }
                (11, _) => {
                    let all = [None, Some(Reliability::Confirmable), Some(Reliability::NonConfirmable), Some(Reliability::NeverConfirmable)];
                    net.resource.reliability = all[usize::from(detail % 4)];
                }
                (12, _) => {
                    let loss = u32::from(detail) % 120;
                    let mut count = u32::from(detail);
                    net.link = Box::new(move |_| {
                        count = count.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                        ((count >> 16) % 100 >= loss).then(|| ms(5 + u64::from((count >> 8) % 300)))
                    });
                }
                (13, _) => net.resource.exists = detail % 4 > 0,
                _ => net.change(&number.to_string()),
            }
            for node in 0..=CLIENTS {
                net.settle(node);
            }
            net.run(ms(u64::from(detail) * 40));
            for node in &net.nodes {
                let held = node.endpoint.occupancy();
                prop_assert!(held.observers <= 8 && held.subscriptions <= 4 && held.queued <= held.exchanges, "{:?}", held);
            }
        }
        net.link = Box::new(|_| Some(ms(10)));
        net.run(s(700));
        // The last state reaches every observer that still exists at both ends.
        net.resource.exists = true;
        net.resource.reliability = Some(Reliability::Confirmable);
        net.change("the last");
        net.run(s(400));
        for (client, id) in &open {
            let is_over = |event: &Event<u32>| matches!(event, Event::SubscriptionOver { subscription, .. } if subscription == id);
            prop_assert!(net.events(*client).filter(|event| is_over(event)).count() <= 1, "it ends twice");
        }
        net.resource.exists = false;
        net.tell();
        net.run(s(400));
        prop_assert_eq!(net.endpoint(SERVER).observers(TOPIC), 0);
        for (client, id) in open {
            let now = net.now;
            net.endpoint(client).forget(now, id);
            net.settle(client);
        }
        net.assert_quiescent();
    }
}
