//! What happens to the network during a run.

use conche_netsim::wired::LinkConfig;
use serde::Deserialize;

use crate::units::Span;

/// A change at a time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When, since the run began.
    pub at: Span,
    /// What.
    pub event: Happening,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Happening {
    /// A link behaves differently from now on.
    Link {
        /// Its name.
        name: String,
        /// How: what is left out stays as it was when the run began.
        wire: Box<LinkConfig>,
    },
    /// A link carries nothing for a time, and what waits for it is lost.
    Fail {
        /// Its name.
        link: String,
        /// For how long.
        #[serde(rename = "for")]
        lasting: Span,
    },
    /// Nothing comes from, to and through nodes for a time.
    CutOff {
        /// A node, a group, or a part of one such as `mote[3]`.
        nodes: String,
        /// For how long.
        #[serde(rename = "for")]
        lasting: Span,
    },
    /// A node forgets everything and starts anew.
    Reboot {
        /// A node, a group, or a part of one such as `mote[3]`.
        nodes: String,
    },
}
