//! Networks that a scenario can ask for.

use serde::Deserialize;

use super::{AtLeastOne, NonEmpty, ScenarioError};
use crate::units::{BitRate, Size, Span, SpanRange};

/// The kind of network, written as the name of a table: `[network.shared-bottleneck]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Devices behind one uplink and one narrow downlink.
    SharedBottleneck(SharedBottleneck),
}

/// Devices that share an uplink and a slow downlink with a drop-tail buffer; behind them a jittery core and the server.
///
/// ```text
///  client 1 ┐          uplink                 core
///  client 2 ┼── hub ════════════> router ~~~~~~~~~~~> server
///     …     │       <════════════        <~~~~~~~~~~~
///  client N ┘          downlink
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedBottleneck {
    /// Numbers of clients, each a cell of the experiment.
    pub clients: NonEmpty<AtLeastOne>,
    /// Bytes that every datagram has on the wire beyond its UDP payload.
    pub header: Size,
    /// From the devices to the router: one unlimited FIFO.
    pub uplink: Link,
    /// Between router and server.
    pub core: Core,
    /// From the router to the devices.
    pub downlink: Downlink,
}

/// A link that sends one packet after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// How fast it sends.
    pub rate: BitRate,
    /// From the end of sending to arrival.
    pub delay: Span,
}

/// Delays that are drawn for each packet, so that packets may overtake one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// From router to server.
    pub to_server: SpanRange,
    /// From server to router.
    pub from_server: SpanRange,
}

/// The link in front of which packets wait and are dropped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downlink {
    /// How fast it sends.
    pub rate: BitRate,
    /// From the end of sending to arrival.
    pub delay: Span,
    /// Sizes of the buffer, each a cell of the experiment.
    pub buffers: NonEmpty<Buffer>,
}

/// A buffer: the bytes that may wait, the packet in transmission not counted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// What results call it.
    pub name: String,
    /// How many bytes may wait.
    pub size: Size,
}

impl Network {
    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let Self::SharedBottleneck(network) = self;
        let place = |name: &str| format!("network.shared-bottleneck.{name}");
        super::distinct(&place("downlink.buffers"), network.downlink.buffers.iter().map(|buffer| &buffer.name))?;
        for (name, rate) in [("uplink.rate", network.uplink.rate), ("downlink.rate", network.downlink.rate)] {
            if rate.as_bits() == 0 {
                return Err(ScenarioError::new(
                    place(name),
                    "0bit/s sends nothing; write it as in 30kbit/s".to_owned(),
                ));
            }
        }
        if network.header.0 > u64::from(u16::MAX) {
            return Err(ScenarioError::new(place("header"), format!("{} is no size of a header", network.header)));
        }
        Ok(())
    }
}
