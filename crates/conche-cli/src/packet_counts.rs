//! [`PacketCounts`]: packets of a link or path, for the report of an emulation and the live view.

use conche_netsim::trace::DropReason;
use serde::Serialize;

/// Counts of packets since the start of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PacketCounts {
    /// Packets sent into it.
    pub sent: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets dropped by a full queue or its management.
    pub queue_drops: u64,
    /// Packets dropped for another reason, such as a link that is down.
    pub other_drops: u64,
}

impl PacketCounts {
    pub fn drop(&mut self, reason: DropReason) {
        match reason {
            DropReason::Lost(_) => self.lost += 1,
            DropReason::QueueFull(_) | DropReason::DroppedEarly(_) => self.queue_drops += 1,
            _ => self.other_drops += 1,
        }
    }
}

/// Omits the number of a node or link: `client[3]` is one of `client`.
pub fn group(name: &str) -> String {
    match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open < close => format!("{}{}", &name[..open], &name[close + 1..]),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
pub mod testing {
    use conche_netsim::host::{Host, Port, Received};

    /// Takes packets, and sends none.
    pub struct Sink;

    impl Host for Sink {
        type Timer = ();
        fn start(&mut self, _: &mut Port<'_, ()>) {}
        fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
        fn timer(&mut self, _: &mut Port<'_, ()>, (): ()) {}
        fn wake(&mut self, _: &mut Port<'_, ()>) {}
    }
}
