//! Protected messages on the wire: no content is visible, and no nonce is used twice.

use std::collections::HashMap;

use conche_proto::codec::{Code, MessageId, OptionNumber, OwnedMessage, Type};

use super::{CLIENT_ID, SERVER_ID};
use crate::model::Address;
use crate::support::CLIENT;

type Nonce = (&'static [u8], Vec<u8>);

/// Key owner, nonce, and ciphertext.
#[derive(Debug, Default)]
pub struct Recorder {
    seen: HashMap<(Address, Nonce), Vec<u8>>,
    /// By token and message ID. The blocks of a body share a token.
    numbers: HashMap<Vec<u8>, Vec<(MessageId, Vec<u8>)>>,
    pub messages: usize,
}

impl Recorder {
    /// Asserts that a protected message has a new nonce.
    pub fn record(&mut self, from: Address, message: &OwnedMessage) {
        let Some(value) = message.option(OptionNumber::OSCORE) else { return };
        let number = value.split_first().map_or(&[][..], |(flags, rest)| &rest[..usize::from(flags & 7)]).to_vec();
        let token = message.token().as_slice().to_vec();
        let by = if from == CLIENT { CLIENT_ID } else { SERVER_ID };
        let nonce = if message.code().is_request() {
            self.numbers.entry(token).or_default().push((message.header().id, number.clone()));
            (by, number)
        } else if number.is_empty() {
            let requests = &self.numbers[&token];
            let acknowledged = |(id, _): &&(MessageId, Vec<u8>)| {
                message.header().ty != Type::Acknowledgement || *id == message.header().id
            };
            let (_, number) = requests.iter().rfind(acknowledged).expect("it answers a request");
            (CLIENT_ID, number.clone())
        } else {
            (by, number)
        };
        self.messages += 1;
        let sealed = message.payload().to_vec();
        let before = self.seen.entry((from, nonce)).or_insert_with(|| sealed.clone());
        assert_eq!(*before, sealed, "a nonce protects two messages: {message}");
    }

    pub fn of<'a>(sent: impl IntoIterator<Item = (Address, &'a OwnedMessage)>) -> Self {
        let mut recorder = Self::default();
        sent.into_iter().for_each(|(from, message)| recorder.record(from, message));
        recorder
    }

    pub fn different(&self) -> usize {
        self.seen.len()
    }
}

pub fn assert_opaque(message: &OwnedMessage, bytes: &[u8], secrets: &[&[u8]]) {
    if message.code() == Code::EMPTY {
        return;
    }
    assert!(message.option(OptionNumber::OSCORE).is_some(), "{message}");
    let outer = [Code::POST, Code::FETCH, Code::CHANGED, Code::CONTENT];
    assert!(outer.contains(&message.code()), "{message}");
    let known = [OptionNumber::OSCORE, OptionNumber::OBSERVE, OptionNumber::MAX_AGE];
    assert!(message.view().options().all(|option| known.contains(&option.number)), "{message}");
    for secret in secrets {
        assert!(!bytes.windows(secret.len()).any(|window| window == *secret), "{secret:?} in {message}");
    }
}
