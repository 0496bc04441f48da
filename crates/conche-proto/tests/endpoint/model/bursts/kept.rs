//! [`Kept`]: stored responses sent in bursts.

use std::collections::{BTreeSet, HashMap, HashSet};

use conche_proto::codec::{Block, Message, OptionNumber};
use conche_proto::{ExchangeId, Instant};

use super::super::Address;
use super::{Rules, blocks, end_of_burst};

#[derive(Debug, Default)]
pub(super) struct Kept {
    peers: HashMap<Address, Asked>,
    leaving: HashMap<ExchangeId, Leaving>,
}

#[derive(Debug, Default)]
struct Asked {
    tokens: HashSet<Vec<u8>>,
    /// How often each block may still be sent.
    blocks: HashMap<u32, usize>,
    /// How often whole bodies were requested, and how often each of their blocks was sent for this.
    all: usize,
    left_of_all: HashMap<u32, usize>,
    /// A message has arrived since the last transmission.
    heard: bool,
    /// Whole states that may have been sent.
    states: usize,
    /// The application may still be answering these requests: each counts as a message again.
    late: usize,
}

#[derive(Debug)]
struct Leaving {
    last: Instant,
    /// Consecutive bursts without a message from the peer.
    unanswered: u8,
}

impl Kept {
    pub(super) fn asked(&mut self, from: Address, message: &Message<'_>, rules: &Rules) {
        let asked = self.peers.entry(from).or_default();
        let Some(mut blocks) = blocks(message, OptionNumber::Q_BLOCK2) else { return };
        if blocks.is_empty() {
            // The sender of a Q-Block request also requests the whole response.
            let Ok(Some(block)) = message.block(OptionNumber::Q_BLOCK1) else { return };
            blocks.push(Block { num: 0, more: true, ..block });
        }
        asked.tokens.insert(message.token().as_slice().to_vec());
        asked.heard = true;
        let all = usize::from(blocks[0].num == 0 && blocks[0].more);
        (asked.all, asked.late) = (asked.all + all, asked.late + all);
        let mut numbers = BTreeSet::new();
        for block in blocks {
            let end = if block.more { end_of_burst(block.num, rules) } else { block.num + 1 };
            numbers.extend(block.num..end);
        }
        numbers.into_iter().for_each(|number| *asked.blocks.entry(number).or_default() += 1);
    }

    pub(super) fn notified(&mut self) {
        self.peers.values_mut().for_each(|asked| asked.states += 1);
    }

    /// Each payload was requested, and is sent once per request.
    pub(super) fn left(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        to: Address,
        message: &Message<'_>,
        rules: &Rules,
    ) {
        let asked = self.peers.get_mut(&to).unwrap_or_else(|| panic!("{message} left, and nobody asked for it"));
        assert!(asked.tokens.contains(message.token().as_slice()), "{message} has a token that nobody used");
        let block = message.block(OptionNumber::Q_BLOCK2).ok().flatten().expect("it is a block");
        let bytes = message.uint(OptionNumber::SIZE2).expect("Size2 is in every payload (RFC 9177 §4.6)") as usize;
        assert!(message.option(OptionNumber::ETAG).is_some(), "{message} has no ETag (RFC 9177 §4.6)");
        let length = block.size.bytes().min(bytes.saturating_sub(block.offset()));
        let more = block.offset() + length < bytes;
        assert_eq!((block.more, message.payload().len()), (more, length), "{message} is no block of the body");
        let leaving = self.leaving.entry(exchange).or_insert(Leaving { last: now, unanswered: 0 });
        if std::mem::take(&mut asked.heard) || block.num == 0 {
            leaving.unanswered = 0;
        }
        if let Some(times) = asked.blocks.get_mut(&block.num).filter(|times| **times > 0) {
            *times -= 1;
        } else {
            let left = asked.left_of_all.entry(block.num).or_default();
            *left += 1;
            assert!(*left <= asked.all + asked.states, "{message} left more often than it was asked for: {asked:?}");
            // A burst without a message belongs to a body requested as a whole. Paced payloads
            // follow sooner.
            if block.num.is_multiple_of(rules.max_payloads) && now - leaving.last >= rules.non_timeout {
                leaving.unanswered = leaving.unanswered.saturating_add(1);
                if leaving.unanswered > rules.most && asked.late > 0 {
                    (asked.late, leaving.unanswered) = (asked.late - 1, 1);
                }
                assert!(leaving.unanswered <= rules.most, "{message}: {leaving:?}");
            }
        }
        leaving.last = now;
    }
}
