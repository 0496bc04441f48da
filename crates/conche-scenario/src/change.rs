//! Changes to the network during a run.

use conche_netsim::wired::LinkConfig;
use serde::Deserialize;

use crate::units::Span;

/// A change at a given time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The time, since the start of the run.
    pub at: Span,
    /// The change.
    pub event: Happening,
}

/// A kind of change.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Happening {
    /// A link gets another configuration.
    Link {
        /// The link's name.
        name: String,
        /// The configuration; omitted values are those at the start of the run.
        wire: Box<LinkConfig>,
    },
    /// A link is down for a time, and its queued frames are lost.
    Fail {
        /// The link's name.
        link: String,
        /// The duration.
        #[serde(rename = "for")]
        lasting: Span,
    },
    /// Nodes are disconnected for a time.
    CutOff {
        /// A node, a group, or a part of one such as `mote[3]`.
        nodes: String,
        /// The duration.
        #[serde(rename = "for")]
        lasting: Span,
    },
    /// A node restarts without its state.
    Reboot {
        /// A node, a group, or a part of one such as `mote[3]`.
        nodes: String,
    },
}
