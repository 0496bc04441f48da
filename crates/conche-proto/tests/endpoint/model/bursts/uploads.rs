//! [`Uploads`]: Q-Block request bodies of peers, and the reports to these peers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use conche_proto::codec::{Block, Message, OptionNumber};

use super::super::Address;
use super::{Rules, asks, listed};

#[derive(Debug, Default)]
pub(super) struct Uploads {
    peers: HashMap<Address, Came>,
}

#[derive(Debug, Default)]
struct Came {
    tokens: HashSet<Vec<u8>>,
    blocks: BTreeSet<u32>,
    unsaid: usize,
    bodies: HashSet<String>,
    /// Lists of missing blocks since the last new one.
    in_vain: usize,
}

impl Uploads {
    pub(super) fn came(&mut self, from: Address, local: Option<IpAddr>, message: &Message<'_>) {
        if let Ok(Some(block)) = message.block(OptionNumber::Q_BLOCK1) {
            let came = self.peers.entry(from).or_default();
            came.tokens.insert(message.token().as_slice().to_vec());
            came.blocks.insert(block.num);
            came.bodies.insert(format!("{local:?} {:?} {:?}", asks(message), message.uint(OptionNumber::SIZE1)));
            (came.unsaid, came.in_vain) = (came.unsaid + 1, 0);
        }
    }

    fn of(&mut self, to: Address, message: &Message<'_>) -> &mut Came {
        let came = self.peers.get_mut(&to).unwrap_or_else(|| panic!("{message}, and nothing came"));
        assert!(came.tokens.contains(message.token().as_slice()), "{message} has a token that nobody used");
        came
    }

    pub(super) fn continued(&mut self, to: Address, message: &Message<'_>, block: Block, rules: &Rules) {
        let came = self.of(to, message);
        assert!((block.num + 1).is_multiple_of(rules.max_payloads), "{message} is about no whole set");
        let missing: Vec<u32> = (0..=block.num).filter(|number| !came.blocks.contains(number)).collect();
        assert!(missing.is_empty(), "{message}, and {missing:?} never came");
        assert!(came.unsaid > 0, "{message} answers nothing");
        came.unsaid -= 1;
    }

    pub(super) fn listed(&mut self, to: Address, message: &Message<'_>, rules: &Rules) {
        let came = self.of(to, message);
        let numbers = listed(message.payload()).expect("a list of numbers (RFC 9177 §5)");
        assert!(!numbers.is_empty() && numbers.len() <= rules.max_payloads as usize, "{message}: {numbers:?}");
        assert!(numbers.is_sorted_by(|one, other| one < other), "{message}: {numbers:?} (RFC 9177 §5)");
        if came.unsaid > 0 {
            came.unsaid -= 1;
        } else {
            came.in_vain += 1;
            assert!(came.in_vain <= usize::from(rules.most) * came.bodies.len(), "{message}: asked in vain");
        }
    }
}
