//! The controllers of an endpoint, and their assignment to peers.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use conche_cc::Controller;

/// Identifies one of an endpoint's controllers; 0 is the initial one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControllerId(u8);

pub(crate) type ChooseController<P> = Box<dyn Fn(&P) -> ControllerId + Send + Sync>;

/// All controllers, at least one.
pub(crate) struct Controllers<P, C> {
    all: Vec<C>,
    choose: Option<ChooseController<P>>,
}

impl<P, C: Controller> Controllers<P, C> {
    pub(crate) fn new(first: C) -> Self {
        Self { all: Vec::from([first]), choose: None }
    }

    /// Adds a controller; `None` if there are 256 already.
    pub(crate) fn add(&mut self, controller: C) -> Option<ControllerId> {
        let id = u8::try_from(self.all.len()).ok()?;
        self.all.push(controller);
        Some(ControllerId(id))
    }

    pub(crate) fn choose(&mut self, choose: ChooseController<P>) {
        self.choose = Some(choose);
    }

    /// Returns a controller; the first one if the ID belongs to another endpoint.
    pub(crate) fn get(&self, id: ControllerId) -> &C {
        self.all.get(usize::from(id.0)).unwrap_or(&self.all[0])
    }

    pub(crate) fn of(&self, key: &P) -> ControllerId {
        let chosen = self.choose.as_ref().map_or_else(ControllerId::default, |choose| choose(key));
        if usize::from(chosen.0) < self.all.len() { chosen } else { ControllerId::default() }
    }
}

impl<P, C> fmt::Debug for Controllers<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controllers").field("count", &self.all.len()).finish_non_exhaustive()
    }
}
