//! What happens to the network during a run.

use conche_netsim::wired::LinkConfig;
use conche_netsim::{Instant, LinkId, NodeId};

use super::network::Network;
use crate::scenario::{Happening, Scenario};

/// Something that happens at once.
pub(super) enum Step {
    /// Links behave otherwise from now on.
    Links(Vec<LinkId>, Box<LinkConfig>),
    /// Links go down, or up.
    Up(Vec<LinkId>, bool),
    /// Nodes are cut off, or not any more.
    Joined(Vec<NodeId>, bool),
    /// Nodes forget everything and start anew.
    Reboot(Vec<NodeId>),
}

/// Whether a node starts anew in one of these.
pub(super) fn reboots(steps: &[(Instant, Step)], node: NodeId) -> bool {
    steps.iter().any(|(_, step)| matches!(step, Step::Reboot(nodes) if nodes.contains(&node)))
}

/// The steps of a scenario's changes, the last one first. The links that change are told to the network.
///
/// # Errors
/// If a change is of what the network does not have.
pub(super) fn steps(scenario: &Scenario, network: &mut Network) -> Result<Vec<(Instant, Step)>, String> {
    let mut steps = Vec::new();
    for change in &scenario.changes {
        let at = Instant::ZERO + change.at.0;
        let of = |problem: String| format!("changes, at {}: {problem}", change.at);
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
    // Stable, and the first one of a time is to be the last.
    steps.reverse();
    steps.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    Ok(steps)
}
