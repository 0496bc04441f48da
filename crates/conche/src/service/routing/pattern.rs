//! [`Pattern`], the path of a route, and [`Node`], the lookup tree of patterns.

use smallvec::SmallVec;

use super::RouteError;

#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Literal(Box<str>),
    /// `{name}`: any one segment.
    Capture,
    /// `{*name}`: all remaining segments, at least one.
    Rest,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, RouteError> {
        let malformed = |hint| RouteError::Malformed { path: text.to_owned(), hint };
        let path = text.strip_prefix('/').ok_or_else(|| malformed("it must begin with \"/\""))?;
        let mut segments = Vec::new();
        if !path.is_empty() {
            for segment in path.split('/') {
                if segments.last() == Some(&Segment::Rest) {
                    return Err(malformed("\"{*…}\" must be the last segment, as it matches all that follow"));
                }
                segments.push(Segment::parse(segment).map_err(malformed)?);
            }
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    /// A nested root is the prefix itself.
    pub(super) fn below(&self, prefix: &Self) -> Self {
        let text = match self.segments.as_slice() {
            [] => prefix.text.clone(),
            _ => format!("{}{}", prefix.text, self.text),
        };
        Self { text, segments: [prefix.segments.as_slice(), &self.segments].concat() }
    }

    pub(super) fn captures(&self) -> usize {
        self.segments.iter().filter(|segment| segment.literal().is_none()).count()
    }

    pub(super) fn is_prefix_of(&self, path: &[&[u8]]) -> bool {
        self.segments.len() <= path.len()
            && self.segments.iter().zip(path).all(|(segment, text)| match segment {
                Segment::Literal(literal) => literal.as_bytes() == *text,
                Segment::Capture | Segment::Rest => true,
            })
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, &'static str> {
        const HINT: &str = "braces must enclose a whole segment, as in \"/sensors/{id}\" or \"/files/{*path}\"";
        if text.starts_with([':', '*']) {
            return Err("a capture is written \"/{id}\" or \"/{*rest}\"");
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['{', '}', '*']);
        match text.strip_prefix('{').map(|text| text.strip_suffix('}')) {
            None if !text.contains(['{', '}']) => Ok(Self::Literal(text.into())),
            Some(Some(name)) if is_name(name) => Ok(Self::Capture),
            Some(Some(name)) if name.strip_prefix('*').is_some_and(is_name) => Ok(Self::Rest),
            _ => Err(HINT),
        }
    }

    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Capture | Self::Rest => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct Captured {
    pub(in crate::service) first: usize,
    pub(in crate::service) rest: bool,
}

pub(in crate::service) type Captures = SmallVec<[Captured; 4]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Sorted.
    literals: Vec<(Box<[u8]>, Node)>,
    capture: Option<Box<Node>>,
    rest: Option<usize>,
    route: Option<usize>,
}

impl Node {
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

    /// The index of a literal, or where to insert it.
    fn literal(&self, segment: &[u8]) -> Result<usize, usize> {
        self.literals.binary_search_by(|(literal, _)| (**literal).cmp(segment))
    }

    /// At each segment literals precede captures, and these the rest. The search visits no node
    /// twice.
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

/// Other captured values match no resource.
fn is_text(segment: &[u8]) -> bool {
    std::str::from_utf8(segment).is_ok()
}
