//! [`Pattern`]: the path of a route.

use super::RouteError;

#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    /// As written.
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
}

/// One segment of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Literal text.
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

    /// Returns this path below a prefix. A nested root is the prefix itself.
    pub(super) fn below(&self, prefix: &Self) -> Self {
        let text = match self.segments.as_slice() {
            [] => prefix.text.clone(),
            _ => format!("{}{}", prefix.text, self.text),
        };
        Self { text, segments: [prefix.segments.as_slice(), &self.segments].concat() }
    }

    /// Returns the number of captured values.
    pub(super) fn captures(&self) -> usize {
        self.segments.iter().filter(|segment| segment.literal().is_none()).count()
    }

    /// Whether the path equals the prefix or lies below it.
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
