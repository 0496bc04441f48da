//! A node's latest and best route per destination (RFC 3561 §6.2).

use std::collections::BTreeMap;

use super::metric::{Cost, Metric};
use crate::NodeId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) next_hop: NodeId,
    pub(super) cost: Cost,
    pub(super) sequence: u16,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    routes: BTreeMap<NodeId, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    route: Route,
    valid: bool,
}

impl Table {
    pub(super) fn get(&self, destination: NodeId) -> Option<Route> {
        self.routes.get(&destination).filter(|entry| entry.valid).map(|entry| entry.route)
    }

    /// Stores a route if newer, or equally new and better.
    pub(super) fn offer(&mut self, destination: NodeId, route: Route, metric: &Metric) {
        let takes = |known: &Entry| {
            let known_route = known.route;
            newer(route.sequence, known_route.sequence)
                || (route.sequence == known_route.sequence
                    && (!known.valid || metric.prefers(route.cost, known_route.cost)))
        };
        if self.routes.get(&destination).is_none_or(takes) {
            self.routes.insert(destination, Entry { route, valid: true });
        }
    }

    /// Invalidates routes over a neighbour.
    pub(super) fn break_link(&mut self, neighbour: NodeId) {
        for entry in self.routes.values_mut().filter(|entry| entry.route.next_hop == neighbour) {
            entry.valid = false;
        }
    }

    pub(super) fn break_route(&mut self, destination: NodeId, next_hop: NodeId) {
        if let Some(entry) = self.routes.get_mut(&destination).filter(|entry| entry.route.next_hop == next_hop) {
            entry.valid = false;
        }
    }
}

/// With wrap-around (RFC 3561 §6.1).
pub(super) fn newer(one: u16, other: u16) -> bool {
    (1..1 << 15).contains(&one.wrapping_sub(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(next_hop: u32, hops: u8, sequence: u16) -> Route {
        Route { next_hop: NodeId(next_hop), cost: Cost { hops, delivery: u16::MAX }, sequence }
    }

    #[test]
    fn a_newer_route_replaces_a_shorter_one_and_an_equally_new_one_only_if_it_is_shorter() {
        let (mut table, to) = (Table::default(), NodeId(9));
        let mut next = |route: Route| {
            table.offer(to, route, &Metric::HopCount);
            table.get(to).expect("a route").next_hop.0
        };
        assert_eq!(next(route(1, 3, 10)), 1);
        assert_eq!(next(route(2, 3, 10)), 1);
        assert_eq!(next(route(3, 2, 10)), 3);
        assert_eq!(next(route(4, 5, 11)), 4);
        assert_eq!(next(route(5, 1, 10)), 4, "it is older");
    }

    #[test]
    fn a_broken_link_takes_its_routes_with_it_and_no_others() {
        let mut table = Table::default();
        table.offer(NodeId(8), route(1, 1, 0), &Metric::HopCount);
        table.offer(NodeId(9), route(2, 1, 0), &Metric::HopCount);
        table.break_link(NodeId(1));
        assert_eq!((table.get(NodeId(8)), table.get(NodeId(9)).map(|route| route.next_hop)), (None, Some(NodeId(2))));
        table.break_route(NodeId(9), NodeId(1));
        assert!(table.get(NodeId(9)).is_some(), "it leads over another neighbour");
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        assert!(newer(1, 65_535) && newer(0, 65_535) && !newer(65_535, 0) && !newer(5, 5));
    }
}
