//! The tree to which RPL converges in a static network (RFC 6550, storing mode): packets go up to
//! the first common ancestor, then down.
//!
//! Objective functions: OF0 (RFC 6552) with hop counts, and MRHOF (RFC 6719) with ETX = 1/(forward
//! PRR · backward PRR) (De Couto et al.: A high-throughput path metric for multi-hop wireless
//! routing, MobiCom 2003), in units of 1/128 as in RFC 6551. Simplification: stations know their
//! ratios exactly and keep their parents, so MRHOF's hysteresis has no effect. Ties are broken at
//! random, as by the order of DIO messages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::radio::LinkQuality;
use crate::rng::Stream;
use crate::wired::Topology;
use crate::{NodeId, RadioId};

/// The choice of parents.
///
/// ```toml
/// objective = "hop-count"
/// min_ratio = 0.9
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RplConfig {
    /// The cost minimised on the path to the root.
    pub objective: Objective,
    /// Minimum packet reception ratio in both directions.
    pub min_ratio: f64,
}

/// The cost minimised on the path to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// OF0: the number of hops, then ETX.
    HopCount,
    /// MRHOF: the sum of ETX, then the number of hops.
    Etx,
}

impl Default for RplConfig {
    /// MRHOF, Contiki's default; links deliver at least half of their frames.
    fn default() -> Self {
        Self { objective: Objective::Etx, min_ratio: 0.5 }
    }
}

/// An RPL tree.
///
/// ```
/// use conche_netsim::mac::{MacConfig, RadioConfig};
/// use conche_netsim::radio::{MediumConfig, Position, Udgm};
/// use conche_netsim::rng::{Entity, Purpose, Streams};
/// use conche_netsim::routing::{RplConfig, RplTree};
/// use conche_netsim::wired::{LinkConfig, Topology};
///
/// let mut net = Topology::new();
/// let medium = MediumConfig::Udgm(Udgm { transmission_range_m: 10.0, ..Udgm::default() });
/// let air = net.radio("air", RadioConfig { medium, mac: MacConfig::contiki31() });
/// let nodes = ["router", "near", "far"].map(|name| net.node(name));
/// for (node, x_m) in nodes.into_iter().zip([0.0, 9.0, 18.0]) {
///     net.place(air, node, Position::metres(x_m, 0.0));
/// }
/// let host = net.node("host");
/// net.duplex("slip", nodes[0], host, LinkConfig::default());
///
/// let seed = 1;
/// let quality = net.link_quality(air, seed, 100)?;
/// let mut ties = Streams::new(seed).stream(Entity::Run, Purpose::named("rpl"));
/// let tree = RplTree::new(&quality, nodes[0], RplConfig::default(), &mut ties);
/// assert_eq!((tree.hops(nodes[2]), tree.parent(nodes[2])), (Some(2), Some(nodes[1])));
/// assert_eq!(tree.unreached().count(), 0);
/// tree.install(&mut net, air);
/// # Ok::<(), conche_netsim::wired::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RplTree {
    root: NodeId,
    members: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    node: NodeId,
    parent: Option<NodeId>,
    hops: Option<u16>,
}

type Cost = (u64, u64, u64);

impl RplTree {
    /// Creates the tree; `root` must have a station.
    #[must_use]
    pub fn new(quality: &LinkQuality, root: NodeId, config: RplConfig, ties: &mut Stream) -> Self {
        let nodes = quality.nodes();
        let mut members: Vec<Member> =
            nodes.iter().map(|node| Member { node: *node, parent: None, hops: None }).collect();
        let mut costs: Vec<Option<Cost>> = vec![None; nodes.len()];
        let mut settled = vec![false; nodes.len()];
        let mut reached = BinaryHeap::new();
        if let Some(place) = quality.position(root) {
            (costs[usize::from(place)], members[usize::from(place)].hops) = (Some((0, 0, 0)), Some(0));
            reached.push(Reverse(((0, 0, 0), place)));
        }
        while let Some(Reverse((cost, at))) = reached.pop() {
            if std::mem::replace(&mut settled[usize::from(at)], true) {
                continue;
            }
            let parent = members[usize::from(at)];
            for &(child, backward) in quality.received_from(at) {
                let place = usize::from(child);
                if settled[place] {
                    continue;
                }
                let Some(etx) = config.etx(quality.between(child, at), backward) else { continue };
                let through = config.objective.through(cost, etx, ties.below(u64::MAX));
                if costs[place].is_none_or(|known| through < known) {
                    costs[place] = Some(through);
                    let hops = parent.hops.map(|hops| hops + 1);
                    members[place] = Member { parent: Some(parent.node), hops, ..members[place] };
                    reached.push(Reverse((through, child)));
                }
            }
        }
        Self { root, members }
    }

    /// Returns the root.
    #[must_use]
    pub const fn root(&self) -> NodeId {
        self.root
    }

    /// Returns a node's parent; `None` for the root and without a path.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.member(node)?.parent
    }

    /// Returns a node's hops to the root; `None` without a path.
    #[must_use]
    pub fn hops(&self, node: NodeId) -> Option<u16> {
        self.member(node)?.hops
    }

    /// Returns the nodes without a path to the root.
    pub fn unreached(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|member| member.hops.is_none()).map(|member| member.node)
    }

    /// Returns the nodes without an entry in the root's routing table of `room` entries.
    ///
    /// These are the farthest, whose announcements arrive last; ties are broken at random.
    #[must_use]
    pub fn beyond(&self, room: usize, chance: &mut Stream) -> Vec<NodeId> {
        let below = self.members.iter().filter(|member| member.parent.is_some());
        let mut order: Vec<_> = below.map(|member| (member.hops, chance.below(u64::MAX), member.node)).collect();
        order.sort_unstable();
        order.into_iter().skip(room).map(|(.., node)| node).collect()
    }

    /// Adds the tree's hops, named `rpl child-parent` by node number. Without other hops, routes
    /// follow the tree.
    pub fn install(&self, net: &mut Topology, radio: RadioId) {
        for member in &self.members {
            if let Some(parent) = member.parent {
                let name = format!("rpl {}-{}", member.node.index(), parent.index());
                net.duplex_hop(name, radio, member.node, parent);
            }
        }
    }

    fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|member| member.node == node)
    }
}

impl RplConfig {
    /// Returns the ETX in units of 1/128, `None` if a ratio is too low.
    fn etx(&self, forward: f64, backward: f64) -> Option<u64> {
        let ratio = forward * backward;
        if forward < self.min_ratio || backward < self.min_ratio || ratio <= 0.0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 128, and it saturates")]
        let etx = (128.0 / ratio + 0.5) as u64;
        // Beyond RFC 6551's 16 bits: no link.
        (etx <= u64::from(u16::MAX)).then_some(etx)
    }
}

impl Objective {
    const fn through(self, rest: Cost, etx: u64, chance: u64) -> Cost {
        match self {
            Self::HopCount => (rest.0 + 1, rest.1 + etx, chance),
            Self::Etx => (rest.0 + etx, rest.1 + 1, chance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    fn ties(seed: u64) -> Stream {
        Streams::new(seed).stream(Entity::Run, Purpose::named("rpl"))
    }

    fn tree(count: usize, links: &[(usize, usize, f64)], objective: Objective, seed: u64) -> RplTree {
        let mut ratios = vec![vec![0.0; count]; count];
        for (a, b, ratio) in links {
            (ratios[*a][*b], ratios[*b][*a]) = (*ratio, *ratio);
        }
        let nodes = (0..).map(NodeId).take(count).collect();
        let quality = LinkQuality::new(nodes, ratios).expect("ratios");
        RplTree::new(&quality, NodeId(0), RplConfig { objective, min_ratio: 0.5 }, &mut ties(seed))
    }

    #[test]
    fn etx_takes_two_good_hops_before_a_grey_one_and_hop_count_does_not() {
        // 1/0.6² = 2.78 against 2/0.95² = 2.22.
        let links = [(0, 1, 0.95), (1, 2, 0.95), (0, 2, 0.6)];
        let parent = |objective| tree(3, &links, objective, 1).parent(NodeId(2));
        assert_eq!((parent(Objective::Etx), parent(Objective::HopCount)), (Some(NodeId(1)), Some(NodeId(0))));
    }

    #[test]
    fn of_equal_hop_counts_the_better_links_win() {
        let links = [(0, 1, 0.9), (0, 2, 0.8), (1, 3, 0.9), (2, 3, 0.9)];
        assert!((0..20).all(|seed| tree(4, &links, Objective::HopCount, seed).parent(NodeId(3)) == Some(NodeId(1))));
    }

    #[test]
    fn chance_decides_between_equal_parents() {
        let links = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)];
        let left = (0..400).filter(|s| tree(4, &links, Objective::Etx, *s).parent(NodeId(3)) == Some(NodeId(1)));
        // Binomial, σ = 10.
        assert!(left.count().abs_diff(200) < 40);
    }

    #[test]
    fn a_table_that_is_full_lacks_some_of_the_nodes_that_are_farthest() {
        let links = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (1, 4, 1.0), (1, 5, 1.0)];
        let tree = tree(6, &links, Objective::HopCount, 1);
        let beyond = |room, seed| tree.beyond(room, &mut ties(seed));
        assert_eq!(beyond(5, 1), []);
        let lacking: Vec<Vec<NodeId>> = (0..40).map(|seed| beyond(4, seed)).collect();
        for far in 3..6 {
            assert!(lacking.contains(&vec![NodeId(far)]), "{lacking:?}");
        }
        assert!(lacking.iter().all(|nodes| nodes.len() == 1 && nodes[0] > NodeId(2)));
    }

    #[test]
    fn a_node_behind_a_weak_or_one_way_link_is_reported() {
        let mut links = vec![(0, 1, 1.0), (1, 2, 0.4)];
        assert_eq!(tree(3, &links, Objective::Etx, 1).unreached().collect::<Vec<_>>(), [NodeId(2)]);
        links[1].2 = 0.5;
        let whole = tree(3, &links, Objective::Etx, 1);
        assert_eq!((whole.unreached().count(), whole.hops(NodeId(2)), whole.hops(whole.root())), (0, Some(2), Some(0)));
        let nodes = vec![NodeId(0), NodeId(1)];
        let one_way = LinkQuality::new(nodes, vec![vec![0.0, 1.0], vec![0.0, 0.0]]).expect("ratios");
        let tree = RplTree::new(&one_way, NodeId(0), RplConfig::default(), &mut ties(1));
        assert_eq!(tree.unreached().collect::<Vec<_>>(), [NodeId(1)]);
    }
}
