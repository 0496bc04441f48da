//! Controllers of other crates, and those defined at run time.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::named::Source;
use super::{ALL, AnyController, Controllers, Named};
use crate::control::Controller;
use crate::dynamic::DynController;
use crate::features::Features;
use crate::parameters::{Parameters, same_name};

impl Named {
    /// Names another crate's algorithm with its `Default` configuration.
    #[must_use]
    pub const fn own<C>(name: &'static str, features: Features) -> Self
    where
        C: Controller + Default + fmt::Debug + Send + Sync + 'static,
        C::Peer: Send + Sync + 'static,
        C::Flight: Send + Sync + 'static,
    {
        Self::fixed(name, features, || DynController::new(C::default()).into(), None)
    }

    /// As [`own`](Self::own), with [parameters](crate::parameters!) that can be set by name.
    #[must_use]
    pub const fn own_with_parameters<C>(name: &'static str, features: Features) -> Self
    where
        C: Controller + Parameters + Clone + Default + fmt::Debug + Send + Sync + 'static,
        C::Peer: Send + Sync + 'static,
        C::Flight: Send + Sync + 'static,
    {
        Self::fixed(name, features, || DynController::with_parameters(C::default()).into(), None)
    }

    /// Names an algorithm that is defined at run time; `make` returns it with its defaults.
    ///
    /// ```
    /// use conche_cc::any::{Controllers, Named};
    /// use conche_cc::cocoa::{self, Cocoa};
    ///
    /// let weak_k = 4; // known at run time only
    /// let make = move || Cocoa { weak_k, ..Cocoa::default() }.into();
    /// let own = Named::from_fn(format!("cocoa-{weak_k}"), cocoa::draft03::FEATURES, make).with_version(2);
    /// let controllers = Controllers::with([own])?;
    /// assert_eq!(controllers.by_name("cocoa-4")?.version(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn from_fn(
        name: impl Into<Arc<str>>,
        features: Features,
        make: impl Fn() -> AnyController + Send + Sync + 'static,
    ) -> Self {
        Self { features, source: Source::Shared { name: name.into(), make: Arc::new(make) }, version: None }
    }
}

impl Controllers {
    /// Returns this crate's controllers and `own`.
    ///
    /// # Errors
    ///
    /// If two have the same name.
    pub fn with(own: impl IntoIterator<Item = Named>) -> Result<Self, DuplicateName> {
        let own: Vec<Named> = own.into_iter().collect();
        for (place, named) in own.iter().enumerate() {
            if ALL.iter().chain(&own[..place]).any(|known| same_name(known.name(), named.name())) {
                return Err(DuplicateName(named.name().into()));
            }
        }
        Ok(Self { own: Some(own.into()) })
    }
}

/// Two controllers have this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateName(pub String);

impl fmt::Display for DuplicateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two congestion controllers are called {}; give yours another name", self.0)
    }
}

impl core::error::Error for DuplicateName {}
