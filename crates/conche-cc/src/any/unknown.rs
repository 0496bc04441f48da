//! Names as people type them, and the answer to one that no algorithm has.

use core::fmt;

use super::Controllers;

fn letters(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() })
}

pub(super) fn same(a: &str, b: &str) -> bool {
    letters(a).eq(letters(b))
}

/// No controller has the name that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownController {
    /// The valid name that is spelled most alike, if one is.
    pub nearest: Option<&'static str>,
    asked: [u8; Self::SHOWN],
    len: usize,
    known: Controllers,
}

impl UnknownController {
    /// As much of the wrong name is shown.
    const SHOWN: usize = 32;

    pub(super) fn new(name: &str, known: Controllers) -> Self {
        let len = (0..=Self::SHOWN.min(name.len())).rev().find(|len| name.is_char_boundary(*len)).unwrap_or(0);
        let mut asked = [0; Self::SHOWN];
        asked[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self { nearest: nearest(name, known.iter().map(|named| named.name)), asked, len, known }
    }
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = core::str::from_utf8(&self.asked[..self.len]).unwrap_or("");
        write!(f, "no congestion controller is called {asked:?}")?;
        match self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest}?")?,
            None => f.write_str(".")?,
        }
        f.write_str(" Valid names: ")?;
        for (n, named) in self.known.iter().enumerate() {
            if n > 0 {
                f.write_str(", ")?;
            }
            f.write_str(named.name)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownController {}

/// Of the known names the one that is spelled most like this one, if one is.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (edits, nearest) = known.map(|known| (edits(known, name), known)).min()?;
    (edits <= nearest.len() / 2).then_some(nearest)
}

/// The Levenshtein distance between two names, of which only the first 32 letters count.
fn edits(a: &str, b: &str) -> usize {
    const LONGEST: usize = 32;
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|n| n);
    let columns = b.len().min(LONGEST);
    for (i, from) in letters(a).enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, to) in letters(b).take(LONGEST).enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[columns]
}
