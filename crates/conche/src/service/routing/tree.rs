//! A tree of route segments, for path lookup.

use smallvec::SmallVec;

use super::pattern::Segment;

/// Position of a captured value in a request's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct Captured {
    /// Index of the first captured segment.
    pub(in crate::service) first: usize,
    /// Whether all remaining segments are captured.
    pub(in crate::service) rest: bool,
}

/// Captures of a route, in order.
pub(in crate::service) type Captures = SmallVec<[Captured; 4]>;

/// A node of the tree. Routes are identified by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Sorted.
    literals: Vec<(Box<[u8]>, Node)>,
    capture: Option<Box<Node>>,
    rest: Option<usize>,
    route: Option<usize>,
}

impl Node {
    /// Returns the slot of the route with these segments, inserting nodes as needed.
    pub(super) fn slot(&mut self, segments: &[Segment]) -> &mut Option<usize> {
        match segments.split_first() {
            None => &mut self.route,
            Some((Segment::Rest, _)) => &mut self.rest,
            Some((Segment::Literal(text), below)) => {
                let index = self.literal(text.as_bytes()).unwrap_or_else(|index| {
                    self.literals.insert(index, (text.as_bytes().into(), Self::default()));
                    index
                });
                self.literals[index].1.slot(below)
            }
            Some((Segment::Capture, below)) => self.capture.get_or_insert_default().slot(below),
        }
    }

    /// Returns the index of a literal, or where to insert it.
    fn literal(&self, segment: &[u8]) -> Result<usize, usize> {
        self.literals.binary_search_by(|(literal, _)| (**literal).cmp(segment))
    }

    /// Finds the route of a path: at each segment literals precede captures, and these the rest.
    /// The search is no deeper than the routes, and visits no node twice, regardless of the path's
    /// length.
    pub(super) fn find(&self, path: &[&[u8]], captures: &mut Captures) -> Option<usize> {
        self.find_from(0, path, captures)
    }

    fn find_from(&self, depth: usize, path: &[&[u8]], captures: &mut Captures) -> Option<usize> {
        let Some(segment) = path.get(depth) else { return self.route };
        let literal = self.literal(segment).ok().and_then(|index| self.literals.get(index));
        let literal = literal.and_then(|(_, node)| node.find_from(depth + 1, path, captures));
        if literal.is_some() {
            return literal;
        }
        if let Some(node) = self.capture.as_ref().filter(|_| is_text(segment)) {
            captures.push(Captured { first: depth, rest: false });
            let found = node.find_from(depth + 1, path, captures);
            if found.is_some() {
                return found;
            }
            captures.pop();
        }
        let rest = self.rest.filter(|_| path.iter().skip(depth).all(|segment| is_text(segment)))?;
        captures.push(Captured { first: depth, rest: true });
        Some(rest)
    }
}

/// Captured values must be UTF-8; other paths match no resource.
fn is_text(segment: &[u8]) -> bool {
    std::str::from_utf8(segment).is_ok()
}
