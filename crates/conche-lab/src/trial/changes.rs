//! Changes to the network during a run.

use conche_netsim::wired::LinkConfig;
use conche_netsim::{Instant, LinkId, NodeId};

use super::error::TrialError;
use super::network::Network;
use crate::scenario::{Happening, Scenario};

pub(super) enum Step {
    Links(Vec<LinkId>, Box<LinkConfig>),
    /// Links go down (`false`) or up.
    Up(Vec<LinkId>, bool),
    /// Nodes leave (`false`) or rejoin.
    Joined(Vec<NodeId>, bool),
    /// Nodes restart without state.
    Reboot(Vec<NodeId>),
}

pub(super) fn reboots(steps: &[(Instant, Step)], node: NodeId) -> bool {
    steps.iter().any(|(_, step)| matches!(step, Step::Reboot(nodes) if nodes.contains(&node)))
}

/// Returns the changes in reverse order; marks their links in the network.
///
/// # Errors
/// If a change names an unknown part.
pub(super) fn steps(scenario: &Scenario, network: &mut Network) -> Result<Vec<(Instant, Step)>, TrialError> {
    let mut steps = Vec::new();
    for change in &scenario.changes {
        let at = Instant::ZERO + change.at.0;
        let of = |problem: TrialError| problem.of_change(change.at);
        match &change.event {
            Happening::Link { name, wire } => {
                let links = network.changing(name).map_err(of)?;
                steps.push((at, Step::Links(links, wire.clone())));
            }
            Happening::Fail { link, lasting } => {
                let links = network.changing(link).map_err(of)?;
                steps.push((at, Step::Up(links.clone(), false)));
                steps.push((at + lasting.0, Step::Up(links, true)));
            }
            Happening::CutOff { nodes, lasting } => {
                let nodes = network.nodes(nodes).map_err(of)?;
                steps.push((at, Step::Joined(nodes.clone(), false)));
                steps.push((at + lasting.0, Step::Joined(nodes, true)));
            }
            Happening::Reboot { nodes } => steps.push((at, Step::Reboot(network.nodes(nodes).map_err(of)?))),
        }
    }
    // A stable sort of the reversed list: of simultaneous changes, the first ends up last.
    steps.reverse();
    steps.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    Ok(steps)
}
