//! [`ChangeError`]: why a link cannot change.

use thiserror::Error;

use super::topology::TopologyError;
use crate::LinkId;

/// Why a link cannot be changed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ChangeError {
    /// The link is of another topology.
    #[error("{0} is not a link of this topology")]
    NoSuchLink(LinkId),
    /// The link was not declared as changing, or is a radio hop.
    #[error("{0} cannot change: call Topology::allow_changes before the run")]
    Fixed(LinkId),
    /// The new configuration is invalid.
    #[error(transparent)]
    Config(#[from] TopologyError),
}
