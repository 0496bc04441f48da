//! OBS of ETSI and IRISA: an observing client, and events at the resource, the client or the
//! server.
//!
//! States are numbers, so that late ones are detected. A large state repeats its number and is
//! fetched after its first block.

use conche_proto::codec::{Block, BlockSize, Body, Code, OptionNumber, OwnedMessage, Type};
use conche_proto::{
    EndpointConfig, Event, Failure, ObserverEnd, Reliability, Response, SubscriptionEnd, SubscriptionId,
};

use super::most_pass;
use crate::observe::net::{Net, SERVER, Sent, TOPIC, get, write};
use crate::support::world::lossy_link;
use crate::support::{ms, s};

const CLIENT: u32 = 1;
const OTHER: u32 = 2;
const WORDS: usize = 1_000;

struct Case {
    name: &'static str,
    reliability: Option<Reliability>,
    max_age: Option<u32>,
    large: bool,
    blocks: Option<BlockSize>,
    passes: fn(&mut Net, SubscriptionId) -> bool,
}

const CASES: [Case; 17] = [
    told("OBS_01", Some(Reliability::Confirmable), each_change_is_notified),
    told("OBS_02", Some(Reliability::NeverConfirmable), the_last_change_is_notified),
    told("OBS_03, Confirmable", Some(Reliability::Confirmable), a_forgotten_observation_ends),
    told("OBS_03, Non-confirmable", Some(Reliability::NeverConfirmable), a_forgotten_observation_ends),
    Case { max_age: Some(30), ..told("OBS_04, IRISA_OBS_03", None, observer_reregisters_after_silence) },
    told("OBS_05", Some(Reliability::Confirmable), an_unreachable_observer_is_removed),
    told("OBS_06", Some(Reliability::Confirmable), a_restarted_observer_is_removed),
    told("OBS_07", None, a_deletion_ends_it),
    told("OBS_08", None, another_format_ends_it),
    told("OBS_09", None, notification_of_an_update_by_another_client_arrives),
    told("OBS_10", None, a_get_besides_does_not_cancel),
    told("OBS_12", None, observe_1_cancels),
    Case { large: true, ..told("OBS_13", None, the_last_change_is_notified) },
    Case { large: true, blocks: Some(BlockSize::B512), ..told("OBS_14", None, the_last_change_is_notified) },
    Case { large: true, ..told("OBS_13, Confirmable", Some(Reliability::Confirmable), each_change_is_notified) },
    told("IRISA_OBS_01", Some(Reliability::NonConfirmable), non_confirmable_ones_are_3_seconds_apart),
    told("IRISA_OBS_02", Some(Reliability::NeverConfirmable), one_is_confirmable_every_24_hours),
];

const fn told(
    name: &'static str,
    reliability: Option<Reliability>,
    passes: fn(&mut Net, SubscriptionId) -> bool,
) -> Case {
    Case { name, reliability, max_age: None, large: false, blocks: None, passes }
}

fn each_change_is_notified(net: &mut Net, _: SubscriptionId) -> bool {
    for n in 1..=4 {
        change(net, n);
        net.run(s(100));
        fetch(net);
    }
    numbers(net) == [0, 1, 2, 3, 4]
}

fn the_last_change_is_notified(net: &mut Net, _: SubscriptionId) -> bool {
    for n in 1..=4 {
        change(net, n);
        net.run(s(100));
    }
    fetch(net);
    numbers(net).last() == Some(&4)
}

fn a_forgotten_observation_ends(net: &mut Net, subscription: SubscriptionId) -> bool {
    let now = net.now;
    net.endpoint(CLIENT).forget(now, subscription);
    for n in 1..=8 {
        change(net, n);
        net.run(s(20));
    }
    net.run(s(100));
    assert_eq!(numbers(net), [0]);
    net.held() == (0, 0)
}

fn observer_reregisters_after_silence(net: &mut Net, subscription: SubscriptionId) -> bool {
    net.run(s(60));
    assert!(net.events(CLIENT).any(|event| matches!(event, Event::Stale { .. })));
    net.resource.state = "1".to_owned();
    let now = net.now;
    net.endpoint(CLIENT).reregister(now, subscription).expect("it is stale");
    net.settle(CLIENT);
    net.run(s(100));
    assert!(net.held().0 <= 1, "it is one entry in the list of observers");
    numbers(net).last() == Some(&1)
}

fn an_unreachable_observer_is_removed(net: &mut Net, _: SubscriptionId) -> bool {
    net.link = Box::new(|_| None);
    change(net, 1);
    net.run(s(300));
    assert_eq!(net.endpoint(SERVER).occupancy().observers, 0);
    assert_eq!(gone(net), Some(ObserverEnd::Failed(Failure::TimedOut)));
    true
}

fn a_restarted_observer_is_removed(net: &mut Net, _: SubscriptionId) -> bool {
    net.nodes[CLIENT as usize] = Net::of(CLIENT).nodes.pop().expect("a client");
    change(net, 1);
    net.run(s(300));
    assert_eq!(net.held(), (0, 0), "by a Reset, or since none came");
    gone(net) == Some(ObserverEnd::Failed(Failure::Reset))
}

fn a_deletion_ends_it(net: &mut Net, _: SubscriptionId) -> bool {
    net.request(OTHER, write(Code::DELETE, ""));
    net.run(s(200));
    over(net) == Some(SubscriptionEnd::Error(Code::NOT_FOUND))
}

fn another_format_ends_it(net: &mut Net, _: SubscriptionId) -> bool {
    let (now, error) = (net.now, Response::new(Code::NOT_ACCEPTABLE, Body::EMPTY));
    net.endpoint(SERVER).notify(now, TOPIC, error).expect("a legal response");
    net.settle(SERVER);
    net.run(s(200));
    assert_eq!(net.endpoint(SERVER).occupancy().observers, 0);
    over(net) == Some(SubscriptionEnd::Error(Code::NOT_ACCEPTABLE))
}

fn notification_of_an_update_by_another_client_arrives(net: &mut Net, _: SubscriptionId) -> bool {
    net.request(OTHER, write(Code::PUT, "1"));
    net.run(s(200));
    numbers(net).last() == Some(&1)
}

fn a_get_besides_does_not_cancel(net: &mut Net, _: SubscriptionId) -> bool {
    let asked = net.request(CLIENT, get());
    net.run(s(100));
    let answered =
        net.events(CLIENT).any(|event| matches!(event, Event::Response { exchange, .. } if *exchange == asked));
    // With sufficient loss, the server considers the client gone.
    let observed = net.held() == (1, 1);
    change(net, 1);
    net.run(s(100));
    observed && answered && numbers(net).last() == Some(&1)
}

fn observe_1_cancels(net: &mut Net, subscription: SubscriptionId) -> bool {
    let now = net.now;
    let asked = net.endpoint(CLIENT).unsubscribe(now, subscription).expect("it observes");
    net.settle(CLIENT);
    net.run(s(100));
    let answered =
        net.events(CLIENT).any(|event| matches!(event, Event::Response { exchange, .. } if *exchange == asked));
    let told = numbers(net);
    change(net, 1);
    net.run(s(300));
    assert_eq!(numbers(net), told);
    answered && net.held() == (0, 0) && gone(net) == Some(ObserverEnd::Deregistered)
}

fn non_confirmable_ones_are_3_seconds_apart(net: &mut Net, _: SubscriptionId) -> bool {
    for n in 1..=600 {
        change(net, n);
        net.run(ms(100));
    }
    net.run(s(120));
    let times: Vec<_> = net.notifications().iter().map(|sent| (sent.at, sent.ty())).collect();
    for pair in times.windows(2).filter(|pair| pair[0].1 == Type::NonConfirmable) {
        assert!(pair[1].0 - pair[0].0 >= s(3), "{times:?}");
    }
    numbers(net).last() == Some(&600)
}

fn one_is_confirmable_every_24_hours(net: &mut Net, _: SubscriptionId) -> bool {
    let mut last = net.now;
    for n in 1..=60 {
        change(net, n);
        net.run(s(3_600));
        // A client that acknowledges none of them is removed.
        if net.held() != (1, 1) {
            assert_eq!(gone(net), Some(ObserverEnd::Failed(Failure::TimedOut)));
            return false;
        }
        let confirmable = net.notifications().into_iter().rfind(|sent| sent.ty() == Type::Confirmable);
        last = confirmable.map_or(last, |sent| sent.at);
        assert!(net.now - last <= s(24 * 3_600));
    }
    true
}

fn change(net: &mut Net, number: u32) {
    let large = net.resource.state.len() > 10;
    net.change(&state(number, large));
}

fn state(number: u32, large: bool) -> String {
    if large { format!("{number} ").repeat(WORDS) } else { number.to_string() }
}

fn fetch(net: &mut Net) {
    let told = net.events(CLIENT).filter_map(state_in).last();
    if told.is_some_and(|message| first_block(message).is_some()) {
        net.request(CLIENT, get());
        net.run(s(200));
    }
}

/// Each state must be consistent.
fn numbers(net: &Net) -> Vec<u32> {
    let whole = net.events(CLIENT).filter_map(state_in).filter(|message| first_block(message).is_none());
    let number = |message: &OwnedMessage| {
        let text = str::from_utf8(message.payload()).expect("states are text");
        let words: Vec<u32> = text.split_ascii_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert!(matches!(words.len(), 1 | WORDS) && words.iter().all(|word| *word == words[0]), "parts of two: {text}");
        words[0]
    };
    whole.map(number).collect()
}

fn state_in(event: &Event<u32>) -> Option<&OwnedMessage> {
    match event {
        Event::Response { message, .. } | Event::Notification { message, .. } => {
            (message.code() == Code::CONTENT).then_some(message)
        }
        _ => None,
    }
}

fn first_block(message: &OwnedMessage) -> Option<Block> {
    let block = message.content().block(OptionNumber::BLOCK2).expect("no reserved size");
    block.filter(|_| message.uint(OptionNumber::OBSERVE).is_some())
}

fn gone(net: &Net) -> Option<ObserverEnd> {
    let reason = |event: &Event<u32>| match event {
        Event::ObserverGone { reason, .. } => Some(*reason),
        _ => None,
    };
    net.events(SERVER).filter_map(reason).last()
}

fn over(net: &Net) -> Option<SubscriptionEnd> {
    let reason = |event: &Event<u32>| match event {
        Event::SubscriptionOver { reason, .. } => Some(*reason),
        _ => None,
    };
    net.events(CLIENT).filter_map(reason).last()
}

impl Case {
    /// Ends everything over a lossless link.
    fn run(&self, seed: u64, loss: u32) -> bool {
        let mut config = EndpointConfig::default();
        let mut registration = get();
        if let Some(size) = self.blocks {
            config.block_size = size;
            let wish = Block { num: 0, more: false, size }.encode();
            registration.body =
                registration.body.to_builder().option(OptionNumber::BLOCK2, wish.as_slice()).build().expect("legal");
        }
        let mut net = Net::with(OTHER, "default", &config);
        net.resource.reliability = self.reliability;
        net.resource.max_age = self.max_age;
        net.resource.state = state(0, self.large);
        let mut link = lossy_link::<Sent>(seed, loss, 0, 0);
        net.link = Box::new(move |sent| link(sent).pop());
        let now = net.now;
        let (_, subscription) = net.endpoint(CLIENT).subscribe(now, SERVER, registration).expect("room");
        net.settle(CLIENT);
        net.run(s(if self.max_age.is_some() { 20 } else { 100 }));
        fetch(&mut net);
        let passes = net.held() == (1, 1) && numbers(&net) == [0] && (self.passes)(&mut net, subscription);
        for message in net.events(CLIENT).filter_map(state_in) {
            let size = self.blocks.unwrap_or(BlockSize::B1024);
            assert!(first_block(message).is_none_or(|block| block == Block { num: 0, more: true, size }));
        }
        net.link = Box::new(|_| Some(ms(10)));
        net.run(s(300));
        self.check_the_end(&mut net, subscription, seed, loss);
        passes
    }

    /// Remaining observers receive the next state, states arrived in order, and everything ends.
    fn check_the_end(&self, net: &mut Net, subscription: SubscriptionId, seed: u64, loss: u32) {
        let case = format!("{}, seed {seed}, {loss} %", self.name);
        if net.held() == (1, 1) {
            net.resource.reliability = Some(Reliability::Confirmable);
            change(net, 1_000);
            net.run(s(300));
            fetch(net);
            assert_eq!(numbers(net).last(), Some(&1_000), "{case}");
        }
        assert!(numbers(net).is_sorted(), "{case}: {:?}", numbers(net));
        let now = net.now;
        net.endpoint(CLIENT).forget(now, subscription);
        net.resource.exists = false;
        net.tell();
        net.assert_quiescent();
    }
}

#[test]
fn observations_hold_without_loss_and_with_it_most_do_and_none_ends_in_silence_or_goes_back() {
    most_pass(&CASES, |case| case.name, Case::run);
}
