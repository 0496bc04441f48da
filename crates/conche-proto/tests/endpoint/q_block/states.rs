//! Q-Block notifications.

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{EndpointConfig, Event, Failure, QBlock, Reliability, Request, Response, SubscriptionEnd};

use super::{block_of, in_bursts};
use crate::observe::net::{Net, SERVER, Sent, TOPIC};
use crate::support::world::lossy_link;
use crate::support::{ms, s, wire};

const CLIENT: u32 = 1;
const QB2: OptionNumber = OptionNumber::Q_BLOCK2;

/// Each block identifies the state.
fn state(number: u32, bytes: usize) -> String {
    let piece = format!("{number:07} ");
    piece.repeat(bytes.div_ceil(piece.len()))[..bytes].to_owned()
}

fn net(config: &EndpointConfig) -> Net {
    Net::with(1, "default", config)
}

fn observing(config: &EndpointConfig, bytes: usize) -> Net {
    let mut net = net(config);
    net.resource.state = state(0, bytes);
    net.subscribe(CLIENT);
    net.run(s(20));
    assert_eq!(net.known(CLIENT).as_deref(), Some(&*state(0, bytes)));
    net.sent.clear();
    net
}

fn payloads(net: &Net) -> Vec<&OwnedMessage> {
    let blocks = net.sent.iter().filter(|sent| sent.from == SERVER).map(|sent| &sent.message);
    blocks.filter(|message| block_of(message, QB2).is_some()).collect()
}

fn asked(net: &Net) -> Vec<String> {
    let requests = net.sent.iter().filter(|sent| sent.from == CLIENT && sent.message.code().is_request());
    let blocks = |sent: &Sent| {
        let values = sent.message.values(QB2).map(|value| Block::decode(value).expect("legal").to_string());
        values.collect::<Vec<_>>().join(" ")
    };
    requests.map(blocks).collect()
}

// RFC 9177 §4.5 (Q180)
#[test]
fn a_burst_notification_has_one_observe_value_and_is_delivered_once() {
    let mut net = net(&in_bursts());
    net.resource.state = state(0, 25 * 1024);
    net.subscribe(CLIENT);
    net.run(s(20));
    let responses = net.events(CLIENT).filter(|event| matches!(event, Event::Response { .. })).count();
    assert_eq!((responses, net.known(CLIENT)), (1, Some(state(0, 25 * 1024))));
    let first: Vec<_> = payloads(&net).iter().map(|message| message.uint(OptionNumber::OBSERVE)).collect();
    assert!(first.len() == 25 && first[0].is_some() && first.iter().all(|number| *number == first[0]), "{first:?}");
    assert_eq!(asked(&net), ["0/1/1024", "10/1/1024", "20/1/1024"]);
    net.sent.clear();
    net.change(&state(1, 25 * 1024 + 3));
    net.run(s(20));
    assert_eq!(net.states(CLIENT), [state(1, 25 * 1024 + 3)]);
    assert_eq!(asked(&net), ["10/1/1024", "20/1/1024"]);
    let second = payloads(&net);
    assert!(second.iter().all(|message| message.uint(OptionNumber::OBSERVE) == second[0].uint(OptionNumber::OBSERVE)));
    assert!(second.iter().all(|message| message.token() == second[0].token()));
    // The last burst was not acknowledged, so the first block checks the client's presence
    // (RFC 7641 §4.5).
    let types: Vec<_> = second.iter().map(|message| message.header().ty).collect();
    assert_eq!((types[0], &types[1..]), (Type::Confirmable, &[Type::NonConfirmable; 25][..]));
    assert_ne!(second[0].uint(OptionNumber::OBSERVE), first[0]);
    let goes_on = net.sent.iter().filter(|sent| sent.from == CLIENT && sent.message.code().is_request());
    assert!(goes_on.clone().all(|sent| sent.observe().is_none() && sent.message.token() != second[0].token()));
}

// RFC 9177 §4.5 (Q181)
#[test]
fn missing_notification_blocks_are_answered_by_token_without_observe() {
    let mut net = observing(&in_bursts(), 12 * 1024);
    let mut lost = vec![2, 5, 11];
    net.link = Box::new(move |sent| {
        let number = block_of(&sent.message, QB2).filter(|_| sent.from == SERVER).map(|block| block.num);
        match number.and_then(|number| lost.iter().position(|&of| of == number)) {
            Some(at) => {
                lost.swap_remove(at);
                None
            }
            None => Some(ms(10)),
        }
    });
    net.change(&state(1, 12 * 1024));
    net.run(s(30));
    assert_eq!(net.states(CLIENT), [state(1, 12 * 1024)]);
    assert_eq!(asked(&net), ["2/0/1024 5/0/1024", "10/1/1024", "11/0/1024"]);
    let of_token = |token: &Token| net.sent.iter().any(|sent| sent.from == CLIENT && sent.message.token() == *token);
    let (again, pushed): (Vec<_>, Vec<_>) =
        payloads(&net).into_iter().partition(|message| message.uint(OptionNumber::OBSERVE).is_none());
    assert_eq!((again.len(), pushed.len()), (3, 12));
    assert!(again.iter().all(|message| of_token(&message.token())));
    assert!(pushed.iter().all(|message| !of_token(&message.token())));
}

// RFC 9177 §4.4 (Q182)
#[test]
fn a_newer_state_replaces_the_unsent_blocks_of_an_older_one() {
    let mut net = observing(&in_bursts(), 100 * 1024);
    net.change(&state(1, 100 * 1024));
    run_until(&mut net, 15);
    net.change(&state(2, 100 * 1024));
    net.run(s(60));
    assert!(net.states(CLIENT) == [state(2, 100 * 1024)]);
    assert_eq!(payloads(&net).len(), 15 + 100, "nothing of the older one left after that");
    // Between two bursts.
    net.sent.clear();
    net.change(&state(3, 100 * 1024));
    run_until(&mut net, 20);
    net.change(&state(4, 100 * 1024));
    net.run(s(60));
    assert!(net.states(CLIENT).last() == Some(&state(4, 100 * 1024)));
    assert_eq!(payloads(&net).len(), 20 + 100);
}

fn run_until(net: &mut Net, left: usize) {
    while payloads(net).len() < left {
        net.run(ms(1));
    }
    assert_eq!(payloads(net).len(), left);
}

// RFC 9177 §4.4 (Q182)
#[test]
fn a_state_that_changes_all_the_time_takes_no_more_of_the_path_than_bursts_do() {
    let mut net = observing(&in_bursts(), 100 * 1024);
    let start = net.now;
    for number in 1..2_000 {
        net.change(&state(number, 100 * 1024));
        net.run(ms(10));
    }
    let sent = payloads(&net).len();
    // A burst and its superseded start take about an RTO of 2 s, followed by their waiting time.
    let most = (net.now - start).as_secs() as usize * 10;
    assert!((20..=most).contains(&sent), "{sent} of {most}");
    net.run(s(120));
    assert_eq!(net.known(CLIENT), Some(state(1_999, 100 * 1024)));
}

// RFC 9177 §4.5 (Q180)
#[test]
fn through_loss_no_body_is_mixed_and_the_last_state_is_known_in_the_end() {
    for seed in 0..30_u64 {
        let mut config = in_bursts();
        config.transmission.max_retransmit = 12;
        config.q_block = Some(QBlock { confirmable: seed % 5 == 4, ..QBlock::default() });
        let mut net = Net::with(1, ["default", "cocoa", "fasor"][seed as usize % 3], &config);
        let sizes = [300, 5_000, 12_000, 40_000];
        let size = |number: u32| sizes[(number as usize + seed as usize) % sizes.len()];
        net.resource.state = state(0, size(0));
        net.resource.max_age = Some(20);
        net.subscribe(CLIENT);
        net.run(s(200));
        let mut lossy = lossy_link::<Sent>(seed, 20, 0, 40);
        net.link = Box::new(move |sent| lossy(sent).first().copied());
        for number in 1..12 {
            net.change(&state(number, size(number)));
            net.run(ms(700 * u64::from(number % 4)));
        }
        net.run(s(600));
        let whole = |text: &String| {
            let number = text[..7].parse().expect("a number");
            *text == state(number, size(number))
        };
        assert!(net.states(CLIENT).iter().all(whole), "seed {seed}");
        assert!(net.known(CLIENT) == Some(state(11, size(11))), "seed {seed}");
    }
}

// RFC 9177 §7.1 (Q178)
#[test]
fn burst_notifications_are_confirmable_if_configured() {
    let config = EndpointConfig { q_block: Some(QBlock { confirmable: true, ..QBlock::default() }), ..in_bursts() };
    let mut net = observing(&config, 12 * 1024);
    net.change(&state(1, 12 * 1024));
    net.run(s(30));
    assert_eq!(net.states(CLIENT), [state(1, 12 * 1024)]);
    let types: Vec<_> = payloads(&net).iter().map(|message| message.header().ty).collect();
    assert_eq!(types, [Type::Confirmable; 12]);
    net.sent.clear();
    net.resource.reliability = Some(Reliability::NeverConfirmable);
    net.change(&state(2, 12 * 1024));
    net.run(s(30));
    assert!(payloads(&net).iter().all(|message| message.header().ty == Type::NonConfirmable));
}

// RFC 7641 §4.5
#[test]
fn a_client_that_has_gone_gets_a_few_bursts_and_then_a_confirmable_block_and_is_forgotten() {
    let mut net = observing(&in_bursts(), 100 * 1024);
    net.link = Box::new(|sent| (sent.from == SERVER).then_some(ms(10)));
    net.change(&state(1, 100 * 1024));
    net.run(s(300));
    let bursts = payloads(&net).iter().filter(|message| message.header().ty == Type::NonConfirmable).count();
    assert!(bursts <= 50, "one burst, and four in vain: {bursts}");
    net.run(s(3_000));
    assert_eq!(net.held().0, 0, "it did not acknowledge the state that settled");
}

// RFC 9177 §4.3 (Q183)
#[test]
fn a_fetch_in_bursts_is_observed_by_the_token_of_its_answer() {
    for confirmable in [false, true] {
        let q_block = Some(QBlock { confirmable, ..QBlock::default() });
        let mut net = net(&EndpointConfig { q_block, ..in_bursts() });
        net.resource.state = state(0, 12 * 1024);
        let body = Body::builder().path("/obs").payload(vec![7; 25 * 1024]).build().expect("legal");
        let now = net.now;
        let fetch = Request::new(Code::FETCH, body);
        let (_, id) = net.endpoint(CLIENT).subscribe(now, SERVER, fetch).expect("room");
        net.settle(CLIENT);
        net.run(s(30));
        assert_eq!(net.known(CLIENT), Some(state(0, 12 * 1024)));
        let numbers = net
            .sent
            .iter()
            .filter(|sent| block_of(&sent.message, OptionNumber::Q_BLOCK1).is_some_and(|_| sent.from == CLIENT));
        assert!(numbers.clone().count() == 25 && numbers.clone().all(|sent| sent.observe() == Some(0)));
        for number in 1..4 {
            net.change(&state(number, 12 * 1024));
            net.run(s(30));
        }
        assert_eq!(net.states(CLIENT), [1, 2, 3].map(|number| state(number, 12 * 1024)));
        let now = net.now;
        net.endpoint(CLIENT).reregister(now, id).expect("room");
        net.settle(CLIENT);
        net.run(s(30));
        assert_eq!(net.held(), (1, 1), "under the same token");
        let now = net.now;
        net.endpoint(CLIENT).unsubscribe(now, id).expect("room");
        net.settle(CLIENT);
        net.run(s(30));
        assert_eq!(net.held(), (0, 0));
        net.assert_quiescent();
    }
}

// RFC 9177 §4.1 (Q161)
#[test]
fn a_registration_that_a_server_without_q_block_refuses_is_repeated_without_it_under_the_same_token() {
    let mut net = net(&in_bursts());
    let plain = EndpointConfig { q_block: None, ..in_bursts() };
    let other = conche_proto::Endpoint::new(plain, crate::support::world::by_name("default"), [9; 32]);
    *net.endpoint(SERVER) = other.expect("legal parameters");
    net.subscribe(CLIENT);
    net.run(s(5));
    net.change("1");
    net.run(s(5));
    assert_eq!(net.states(CLIENT), ["1"]);
    let tokens: Vec<Token> = net
        .sent
        .iter()
        .filter(|sent| sent.from == CLIENT && sent.message.code() == Code::GET)
        .map(|sent| sent.message.token())
        .collect();
    assert!(tokens.len() == 2 && tokens[0] == tokens[1], "{tokens:?}");
}

/// Of 64 bytes in blocks of 16.
fn payload(token: &Token, id: u16, num: u32, observe: u32, etag: u8, bytes: u32) -> Vec<u8> {
    let block = Block { num, more: (num + 1) * 16 < bytes, size: BlockSize::B16 };
    let body = Body::builder()
        .option(OptionNumber::ETAG, &[etag])
        .uint(OptionNumber::OBSERVE, observe)
        .uint(OptionNumber::SIZE2, bytes)
        .option(QB2, block.encode().as_slice())
        .payload(vec![etag; 16]);
    wire::message(Type::NonConfirmable, Code::CONTENT, MessageId(id), token, &body.build().expect("legal options"))
}

fn subscribed(config: &EndpointConfig) -> (Net, Token) {
    let mut net = net(config);
    net.subscribe(CLIENT);
    net.run(s(1));
    let token = net.sent.iter().find(|sent| sent.observe() == Some(0)).expect("the registration").message.token();
    (net, token)
}

// RFC 9177 §4.4 (Q182)
#[test]
fn payloads_of_older_states_and_of_other_bodies_come_into_no_newer_one() {
    let (mut net, token) = subscribed(&in_bursts());
    let base = net.sent.iter().find_map(|sent| sent.observe().filter(|_| sent.from == SERVER)).expect("it agreed");
    let mut id = 0x9000;
    let mut give = |net: &mut Net, num, observe, etag, bytes| {
        id += 1;
        net.inject(SERVER, CLIENT, &payload(&token, id, num, base + observe, etag, bytes));
    };
    give(&mut net, 0, 5, b'b', 64);
    give(&mut net, 1, 4, b'a', 64);
    give(&mut net, 1, 5, b'b', 64);
    give(&mut net, 2, 3, b'c', 80);
    give(&mut net, 3, 5, b'b', 64);
    assert!(net.states(CLIENT).is_empty());
    give(&mut net, 2, 5, b'b', 64);
    assert_eq!(net.states(CLIENT), ["b".repeat(64)]);
    // The last block first, and a newer state in between.
    give(&mut net, 3, 6, b'd', 64);
    give(&mut net, 0, 6, b'd', 64);
    give(&mut net, 3, 7, b'e', 64);
    for num in [1, 2, 0] {
        give(&mut net, num, 7, b'e', 64);
        give(&mut net, num, 6, b'd', 64);
    }
    assert_eq!(net.states(CLIENT)[1..], ["e".repeat(64)]);
}

#[test]
fn sets_with_impossible_numbers_and_changing_sizes_take_no_more_memory_than_bodies_may() {
    let mut config = in_bursts();
    config.limits.body_bytes = 4_096;
    config.limits.assembly_bytes = 8_192;
    let (mut net, token) = subscribed(&config);
    for n in 0..5_000_u32 {
        let (num, bytes) = ([0, 1, 9, 0xf_ffff][n as usize % 4], [64, 4_096, 1 << 24, 16][n as usize / 4 % 4]);
        let bytes = payload(&token, n as u16, num, n / 3, (n % 5) as u8, bytes);
        net.inject(SERVER, CLIENT, &bytes);
        let left = net.endpoint(CLIENT).occupancy();
        assert!(left.exchanges <= 1 && left.body_bytes <= 8_192, "{left:?}");
    }
    net.run(s(600));
    assert_eq!(net.endpoint(CLIENT).occupancy().body_bytes, 0);
    assert_eq!(net.held().1, 1, "it goes on to observe");
}

#[test]
fn an_incomplete_notification_is_dropped_and_the_next_one_delivered() {
    let (mut net, token) = subscribed(&in_bursts());
    let base = net.sent.iter().find_map(|sent| sent.observe().filter(|_| sent.from == SERVER)).expect("it agreed");
    net.resource.mute = true;
    net.link = Box::new(|sent| (sent.from == SERVER).then_some(ms(10)));
    net.inject(SERVER, CLIENT, &payload(&token, 0x9000, 0, base + 5, b'x', 64));
    net.sent.clear();
    net.run(s(200));
    assert_eq!(asked(&net).len(), 4, "NON_MAX_RETRANSMIT");
    assert_eq!((net.states(CLIENT).len(), net.endpoint(CLIENT).occupancy().exchanges), (0, 0));
    for num in 0..4 {
        net.inject(SERVER, CLIENT, &payload(&token, 0x9100 + num as u16, num, base + 6, b'y', 64));
    }
    assert_eq!(net.states(CLIENT), ["y".repeat(64)]);
}

#[test]
fn a_registration_with_a_too_large_state_fails_with_the_reason() {
    let mut config = in_bursts();
    config.limits.body_bytes = 4_096;
    let mut net = net(&config);
    let large = EndpointConfig { limits: in_bursts().limits, ..in_bursts() };
    let other = conche_proto::Endpoint::new(large, crate::support::world::by_name("default"), [9; 32]);
    *net.endpoint(SERVER) = other.expect("legal parameters");
    net.resource.state = state(0, 10_000);
    net.subscribe(CLIENT);
    net.run(s(5));
    let over = net.events(CLIENT).find_map(|event| match event {
        Event::SubscriptionOver { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(over, Some(SubscriptionEnd::Failed(Failure::BodyTooLarge)));
    net.change(&state(1, 100));
    net.run(s(60));
    assert_eq!(net.held(), (0, 0), "the server learnt it by a Reset");
    assert_eq!(net.endpoint(SERVER).observers(TOPIC), 0);
}

// RFC 7641 §4.2
#[test]
fn an_error_that_is_too_large_for_a_message_ends_an_observation_in_bursts() {
    let mut net = observing(&in_bursts(), 5_000);
    let (now, payload) = (net.now, state(1, 5_000));
    let error = Body::builder().payload(payload).build().expect("no options");
    net.endpoint(SERVER).notify(now, TOPIC, Response::new(Code::NOT_FOUND, error)).expect("a legal response");
    net.settle(SERVER);
    net.run(s(10));
    assert_eq!(net.held(), (0, 0));
    net.assert_quiescent();
}

// RFC 9177 §4.3
#[test]
fn an_error_in_answer_to_a_fetch_in_bursts_ends_its_registration() {
    let mut net = net(&in_bursts());
    net.resource.mute = true;
    let body = Body::builder().path("/obs").payload(vec![7; 25 * 1024]).build().expect("legal");
    let now = net.now;
    net.endpoint(CLIENT).subscribe(now, SERVER, Request::new(Code::FETCH, body)).expect("room");
    net.settle(CLIENT);
    net.run(s(20));
    let token = net.sent.iter().find(|sent| sent.observe() == Some(0)).expect("the registration").message.token();
    let error = wire::message(Type::NonConfirmable, Code::NOT_FOUND, MessageId(0x9000), &token, &Body::EMPTY);
    net.inject(SERVER, CLIENT, &error);
    let answered =
        |event: &Event<u32>| matches!(event, Event::Response { message, .. } if message.code() == Code::NOT_FOUND);
    assert!(net.events(CLIENT).any(answered));
    assert_eq!(net.held().1, 0);
}

// RFC 7252 §4.2
#[test]
fn requests_for_later_blocks_do_not_retransmit_a_confirmable_block_early() {
    let mut net = net(&in_bursts());
    net.resource.state = state(0, 25 * 1024);
    net.subscribe(CLIENT);
    net.run(s(20));
    let asks = net.sent.iter().rfind(|sent| sent.from == CLIENT && block_of(&sent.message, QB2).is_some());
    let asks = asks.expect("a Continue").message.clone();
    net.sent.clear();
    net.link = Box::new(|sent| (sent.from == SERVER).then_some(ms(10)));
    net.change(&state(1, 25 * 1024));
    net.run(ms(100));
    let content = asks.content();
    let others = content.options().filter(|option| option.number != QB2);
    let block = Block { num: 1, more: false, size: BlockSize::B1024 };
    let body = Body::builder().options(others).option(QB2, block.encode().as_slice()).build().expect("legal");
    for id in 0..20 {
        let again = wire::message(Type::NonConfirmable, Code::GET, MessageId(0x9000 + id), &asks.token(), &body);
        net.inject(CLIENT, SERVER, &again);
        net.run(ms(10));
    }
    let types: Vec<_> = payloads(&net).iter().map(|message| message.header().ty).collect();
    assert_eq!(types, [Type::Confirmable]);
}
