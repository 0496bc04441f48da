//! [`Bursts`]: checks Q-Block messages (RFC 9177) against earlier ones, with rules for each role.

mod kept;
mod requests;
mod states;
mod uploads;

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use conche_proto::codec::{Block, Code, Message, MessageId, OptionNumber, Token, Type};
use conche_proto::{EndpointConfig, ExchangeId, Instant, Transmit};

use super::Address;
use kept::Kept;
use requests::Request;
use states::States;
use uploads::Uploads;

/// RFC 9177 §7.2.
#[derive(Clone, Copy, Debug)]
struct Rules {
    max_payloads: u32,
    non_timeout: std::time::Duration,
    non_receive_timeout: std::time::Duration,
    /// NON_MAX_RETRANSMIT.
    most: u8,
}

#[derive(Debug)]
pub struct Bursts {
    rules: Rules,
    ids: HashSet<(Address, MessageId)>,
    requests: BTreeMap<ExchangeId, Request>,
    kept: Kept,
    uploads: Uploads,
    states: States,
}

impl Bursts {
    pub fn of(config: &EndpointConfig) -> Option<Self> {
        let q_block = config.q_block?;
        let rules = Rules {
            max_payloads: q_block.max_payloads.into(),
            non_timeout: config.transmission.ack_timeout,
            non_receive_timeout: q_block.non_receive_timeout,
            most: config.transmission.max_retransmit,
        };
        Some(Self {
            rules,
            ids: HashSet::new(),
            requests: BTreeMap::new(),
            kept: Kept::default(),
            uploads: Uploads::default(),
            states: States::default(),
        })
    }

    pub fn received(&mut self, now: Instant, from: Address, local: Option<IpAddr>, message: &Message<'_>) {
        // A Confirmable message with a known ID counts as a duplicate (RFC 7252 §4.2), as does a
        // refusal of Q-Block, if there was room to remember it.
        let is_compared = message.ty() == Type::Confirmable || message.code() == Code::BAD_OPTION;
        let is_known = (is_compared || message.code().is_request()) && !self.ids.insert((from, message.id()));
        let may_be_copy = is_compared && is_known;
        for request in self.requests.values_mut() {
            request.received(now, from, message, may_be_copy, &self.rules);
        }
        self.states.received(from, message);
        if message.code().is_request() && message.ty() != Type::Acknowledgement {
            self.kept.asked(from, message, &self.rules);
            self.uploads.came(from, local, message);
        }
    }

    /// Of a message sent for this request, other than its own.
    pub fn used(&self, id: ExchangeId, token: &Token) -> bool {
        self.requests.get(&id).is_some_and(|request| request.used(token))
    }

    /// The request may start again without Q-Block.
    pub fn fell_back(&self, id: ExchangeId) -> bool {
        self.requests.get(&id).is_some_and(Request::may_be_refused)
    }

    pub fn left(&self, id: ExchangeId) -> usize {
        self.requests.get(&id).map_or(0, Request::left)
    }

    pub fn notified(&mut self) {
        self.kept.notified();
    }

    pub fn ended(&mut self, id: ExchangeId) {
        self.requests.remove(&id);
    }

    /// Returns whether it belongs to a burst, and to which request.
    pub fn transmitted(
        &mut self,
        now: Instant,
        transmit: &Transmit<Address>,
        message: &Message<'_>,
    ) -> Option<Option<ExchangeId>> {
        let block = |number| message.block(number).expect("endpoints send no reserved sizes");
        let (q_block1, q_block2) = (block(OptionNumber::Q_BLOCK1), block(OptionNumber::Q_BLOCK2));
        let to = transmit.to;
        match (message.code(), message.ty()) {
            (code, Type::Confirmable) if code.is_request() => {
                let id = transmit.exchange?;
                self.states.registered(to, message);
                match self.requests.get_mut(&id) {
                    Some(request) if q_block1.is_some() => {
                        request.confirmable_left(now, message, q_block1.expect("just asked"));
                    }
                    None if q_block1.or(q_block2).is_some() => {
                        self.requests.insert(id, Request::new(now, to, message));
                    }
                    _ => {}
                }
                None
            }
            (code, Type::NonConfirmable) if code.is_request() && q_block1.or(q_block2).is_some() => {
                let of_it = |(_, request): &(&ExchangeId, &mut Request)| request.may_use(to, message);
                let Some((&id, request)) = self.requests.iter_mut().find(of_it) else {
                    self.states.asked(to, message, &self.rules);
                    return Some(None);
                };
                assert!(transmit.exchange.is_none_or(|named| named == id), "{message} names another exchange");
                match q_block1 {
                    Some(block) => request.payload_left(now, message, block, &self.rules),
                    None => request.asked(now, message, &self.rules),
                }
                Some(Some(id))
            }
            (code, Type::Confirmable) if code.is_response() && q_block2.is_some_and(|block| block.num > 0) => {
                if let Some(exchange) = transmit.exchange.filter(|_| transmit.attempt == 0) {
                    self.kept.left(now, exchange, to, message, &self.rules);
                }
                None
            }
            (code, Type::NonConfirmable) if code.is_response() && q_block2.is_some() && transmit.exchange.is_some() => {
                let exchange = transmit.exchange.expect("checked above");
                self.kept.left(now, exchange, to, message, &self.rules);
                Some(None)
            }
            (Code::CONTINUE, Type::NonConfirmable) if q_block1.is_some() => {
                self.uploads.continued(to, message, q_block1.expect("checked above"), &self.rules);
                Some(None)
            }
            (Code::REQUEST_ENTITY_INCOMPLETE, Type::NonConfirmable)
                if message.uint(OptionNumber::CONTENT_FORMAT) == Some(272) =>
            {
                self.uploads.listed(to, message, &self.rules);
                Some(None)
            }
            _ => None,
        }
    }
}

/// The first block after the burst of this one.
fn end_of_burst(number: u32, rules: &Rules) -> u32 {
    (number / rules.max_payloads + 1).saturating_mul(rules.max_payloads)
}

fn blocks(message: &Message<'_>, number: OptionNumber) -> Option<Vec<Block>> {
    message.values(number).map(|value| Block::decode(value).ok()).collect()
}

/// `None` for anything but CBOR unsigned integers.
fn listed(payload: &[u8]) -> Option<Vec<u32>> {
    let (mut numbers, mut rest) = (Vec::new(), payload);
    while let Some((&head, behind)) = rest.split_first() {
        let extra = match head {
            0..=23 => 0,
            24 => 1,
            25 => 2,
            26 => 4,
            _ => return None,
        };
        let (value, behind) = behind.split_at_checked(extra)?;
        let number = value.iter().fold(0, |number: u32, &byte| number << 8 | u32::from(byte));
        numbers.push(if extra == 0 { head.into() } else { number });
        rest = behind;
    }
    Some(numbers)
}

/// Without block options and Observe.
fn asks(message: &Message<'_>) -> (Code, Vec<(u16, Vec<u8>)>) {
    use OptionNumber as N;
    let is_block = |number| matches!(number, N::Q_BLOCK1 | N::Q_BLOCK2 | N::ETAG | N::OBSERVE | N::SIZE1);
    let options = message.options().filter(|option| !is_block(option.number));
    (message.code(), options.map(|option| (option.number.0, option.value.to_vec())).collect())
}
