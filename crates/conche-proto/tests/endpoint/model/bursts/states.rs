//! [`States`]: our subscriptions, and requests for parts of their states.

use conche_proto::codec::{Code, Message, OptionNumber};

use super::super::Address;
use super::{Rules, asks, blocks};

type Asks = (Code, Vec<(u16, Vec<u8>)>);

#[derive(Debug, Default)]
pub(super) struct States {
    registered: Vec<Registered>,
}

#[derive(Debug)]
struct Registered {
    to: Address,
    asks: Asks,
    /// Each may start a state, or cause a request for more.
    came: usize,
    asked: usize,
}

impl States {
    pub(super) fn registered(&mut self, to: Address, message: &Message<'_>) {
        let asks = asks(message);
        if message.uint(OptionNumber::OBSERVE) == Some(0)
            && !self.registered.iter().any(|known| (known.to, &known.asks) == (to, &asks))
        {
            self.registered.push(Registered { to, asks, came: 0, asked: 0 });
        }
    }

    pub(super) fn received(&mut self, from: Address, message: &Message<'_>) {
        if message.code().is_response() && message.option(OptionNumber::Q_BLOCK2).is_some() {
            self.registered.iter_mut().filter(|known| known.to == from).for_each(|known| known.came += 1);
        }
    }

    /// A request for more was registered for, and a part of the state arrived.
    pub(super) fn asked(&mut self, to: Address, message: &Message<'_>, rules: &Rules) {
        let asks = asks(message);
        let known = self.registered.iter_mut().find(|known| (known.to, &known.asks) == (to, &asks));
        let known =
            known.unwrap_or_else(|| panic!("{message}: of no request in bursts, and of nothing that is observed"));
        assert!(message.option(OptionNumber::OBSERVE).is_none(), "{message} (RFC 9177 §4.5)");
        let blocks = blocks(message, OptionNumber::Q_BLOCK2).expect("endpoints send no reserved sizes");
        assert!(blocks.is_sorted_by(|one, other| one.num < other.num && !one.more), "{message}");
        known.asked += 1;
        assert!(known.asked <= known.came * (1 + usize::from(rules.most)), "{message} is asked for in vain");
    }
}
