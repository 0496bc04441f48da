//! [`Named`] and [`Controllers`]: algorithms by name.

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;

use super::{ALL, AnyController};
use crate::features::Features;
use crate::parameters::{nearest, same_name};

/// A named controller, of this crate or another. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Named {
    /// Feature table row.
    pub features: Features,
    pub(super) source: Source,
    pub(super) version: Option<u32>,
}

/// A name, and how the algorithm is made.
#[derive(Clone)]
pub(super) enum Source {
    Fixed {
        name: &'static str,
        make: fn() -> AnyController,
    },
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    Shared {
        name: Arc<str>,
        make: Arc<dyn Fn() -> AnyController + Send + Sync>,
    },
}

impl Source {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Fixed { name, .. } => name,
            #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
            Self::Shared { name, .. } => name,
        }
    }

    pub(super) fn controller(&self) -> AnyController {
        match self {
            Self::Fixed { make, .. } => make(),
            #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
            Self::Shared { make, .. } => make(),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl Named {
    pub(super) const fn fixed(
        name: &'static str,
        features: Features,
        make: fn() -> AnyController,
        version: Option<u32>,
    ) -> Self {
        Self { features, source: Source::Fixed { name, make }, version }
    }

    /// Returns the name, in lower case with dashes.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Returns the version of the algorithm; `None` if it has none.
    ///
    /// A change of the algorithm's behaviour raises it: results kept on disk are reused for the
    /// same version only. Without a version they are reused by the same executable only.
    #[must_use]
    pub const fn version(&self) -> Option<u32> {
        self.version
    }

    /// Sets the [version](Self::version) of the algorithm.
    #[must_use]
    pub const fn with_version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Returns the algorithm with its production defaults.
    #[must_use]
    pub fn controller(&self) -> AnyController {
        self.source.controller()
    }

    /// Returns this crate's controller of this name, as [`AnyController::by_name`].
    ///
    /// # Errors
    ///
    /// [`UnknownController`].
    pub fn by_name(name: &str) -> Result<&'static Self, UnknownController> {
        ALL.iter().find(|named| same_name(named.name(), name)).ok_or_else(|| Controllers::new().unknown(name))
    }
}

/// A set of controllers: this crate's, then others. Clones are cheap and share the others.
///
/// ```
/// use conche_cc::any::Controllers;
///
/// assert!(Controllers::new().iter().any(|named| named.name() == "cocoa"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(super) own: Option<Arc<[Named]>>,
}

/// Clones are equal, and sets of this crate's controllers only.
impl PartialEq for Controllers {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.own(), other.own()) || self.own().is_empty() && other.own().is_empty()
    }
}

impl Eq for Controllers {}

impl Controllers {
    /// Returns this crate's controllers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
            own: None,
        }
    }

    /// Iterates in table order.
    pub fn iter(&self) -> impl Iterator<Item = &Named> + Clone {
        ALL.iter().chain(self.own())
    }

    /// Returns the controllers that are not this crate's.
    #[must_use]
    pub fn own(&self) -> &[Named] {
        #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
        let own = self.own.as_deref().unwrap_or_default();
        #[cfg(not(all(feature = "alloc", target_has_atomic = "ptr")))]
        let own = &[];
        own
    }

    /// Returns the controller of this name, as [`AnyController::by_name`].
    ///
    /// # Errors
    ///
    /// [`UnknownController`].
    pub fn by_name(&self, name: &str) -> Result<&Named, UnknownController> {
        self.iter().find(|named| same_name(named.name(), name)).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> UnknownController {
        let len = (0..=UnknownController::SHOWN.min(name.len())).rev().find(|len| name.is_char_boundary(*len));
        let len = len.unwrap_or(0);
        let mut asked = [0; UnknownController::SHOWN];
        asked[..len].copy_from_slice(&name.as_bytes()[..len]);
        let nearest = nearest(name, self.iter().map(Named::name));
        let nearest = nearest.and_then(|nearest| self.iter().position(|named| named.name() == nearest));
        UnknownController { nearest, asked, len, known: self.clone() }
    }
}

/// An unknown controller name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownController {
    /// Its place in `known`.
    nearest: Option<usize>,
    asked: [u8; Self::SHOWN],
    len: usize,
    known: Controllers,
}

impl UnknownController {
    const SHOWN: usize = 32;

    /// Returns the most similar valid name, if any.
    #[must_use]
    pub fn nearest(&self) -> Option<&str> {
        self.known.iter().nth(self.nearest?).map(Named::name)
    }
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = core::str::from_utf8(&self.asked[..self.len]).unwrap_or("");
        write!(f, "no congestion controller is called {asked:?}")?;
        match self.nearest() {
            Some(nearest) => write!(f, "; did you mean {nearest}?")?,
            None => f.write_str(".")?,
        }
        f.write_str(" Valid names: ")?;
        for (n, named) in self.known.iter().enumerate() {
            if n > 0 {
                f.write_str(", ")?;
            }
            f.write_str(named.name())?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownController {}
