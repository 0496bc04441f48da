//! Progress of a block-wise transfer (RFC 7959).

use conche::OptionNumber;
use conche::codec::Message;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// A body in transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub direction: Direction,
    /// Bytes sent or received.
    pub done: u64,
    /// Total bytes, if known.
    pub total: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
}

impl Transfer {
    /// Returns the progress after a sent or received message.
    pub fn after(before: Option<Self>, sent: bool, datagram: &[u8]) -> Option<Self> {
        let Ok(message) = Message::decode_extended(datagram) else { return before };
        let (direction, block, size) = match sent {
            true => (Direction::Out, OptionNumber::BLOCK1, OptionNumber::SIZE1),
            false => (Direction::In, OptionNumber::BLOCK2, OptionNumber::SIZE2),
        };
        let content = message.content();
        let Ok(Some(block)) = content.block(block) else { return before };
        let offset = u64::from(block.num) * u64::try_from(block.size.bytes()).unwrap_or_default();
        let done = offset + u64::try_from(message.payload().len()).unwrap_or_default();
        let known = before.filter(|before| before.direction == direction).and_then(|before| before.total);
        let total = if block.more { content.uint(size).map(u64::from).or(known) } else { Some(done) };
        // A retransmission does not reduce the progress.
        let furthest = before.filter(|before| before.direction == direction).map_or(0, |before| before.done);
        Some(Self { direction, done: done.max(furthest), total })
    }
}

/// A progress bar on standard error, if that is a terminal. It appears with the first transfer, and
/// disappears on drop.
#[derive(Debug, Default)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    pub fn show(&mut self, Transfer { direction, done, total }: Transfer) {
        let hidden = || ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let bar = self.0.get_or_insert_with(|| hidden().with_finish(ProgressFinish::AndClear));
        let template = match total {
            Some(_) => "{msg} {bytes} of {total_bytes} [{bar:30}]",
            None => "{msg} {bytes}",
        };
        match total {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
        bar.set_position(done);
        bar.set_message(match direction {
            Direction::Out => "sending",
            Direction::In => "receiving",
        });
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        // Drawn only from now on, when there is something to show.
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a block of 16 bytes: PUT with Block1 and Size1 100, or 2.05 with Block2.
    fn block(sent: bool, num: u8, more: bool) -> Vec<u8> {
        let value = num << 4 | u8::from(more) << 3;
        let head = match sent {
            true => vec![0x40, 3, 0, num, 0xd1, 27 - 13, value, 0xd1, 60 - 27 - 13, 100],
            false => vec![0x60, 0x45, 0, num, 0xd1, 23 - 13, value],
        };
        [head, vec![0xff], vec![0; if more { 16 } else { 4 }]].concat()
    }

    #[test]
    fn blocks_tell_how_much_has_gone_each_way() {
        let mut transfer = None;
        for (sent, num, more, direction, done, total) in [
            (true, 0, true, Direction::Out, 16, Some(100)),
            (true, 2, true, Direction::Out, 48, Some(100)),
            (true, 1, true, Direction::Out, 48, Some(100)),
            (true, 6, false, Direction::Out, 100, Some(100)),
            (false, 0, true, Direction::In, 16, None),
            (false, 1, false, Direction::In, 20, Some(20)),
        ] {
            transfer = Transfer::after(transfer, sent, &block(sent, num, more));
            assert_eq!(transfer, Some(Transfer { direction, done, total }));
        }
    }

    #[test]
    fn what_is_no_block_changes_nothing() {
        assert_eq!(Transfer::after(None, true, b"\x40\x01\x00\x01\xb4test"), None);
        assert_eq!(Transfer::after(None, false, b"nonsense"), None);
    }
}
