//! The routes as a tree of segments, in which a path is looked up.

use smallvec::SmallVec;

use super::pattern::Segment;

/// Where in the path of a request a value was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Captured {
    /// The segment, or the first of several, counted from 0.
    pub(in crate::server) first: usize,
    /// It is this segment and all that follow.
    pub(in crate::server) rest: bool,
}

/// What a route captured, in its order.
pub(in crate::server) type Captures = SmallVec<[Captured; 4]>;

/// What is below one sequence of segments. Routes are named by their index.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// In order.
    literals: Vec<(Box<[u8]>, Node)>,
    capture: Option<Box<Node>>,
    rest: Option<usize>,
    route: Option<usize>,
}

impl Node {
    /// Where the route with these segments is kept.
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

    /// Where the literal is, or would be.
    fn literal(&self, segment: &[u8]) -> Result<usize, usize> {
        self.literals.binary_search_by(|(literal, _)| (**literal).cmp(segment))
    }

    /// The route that this path leads to: at each segment a literal is preferred to a capture, and that to the rest. It
    /// goes no deeper than the routes do, and visits no node twice, however long the path is.
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

/// What is captured is text: what is not UTF-8 names no resource.
fn is_text(segment: &[u8]) -> bool {
    std::str::from_utf8(segment).is_ok()
}
