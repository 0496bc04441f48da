//! [`Known`]: what was found out of addresses.

use alloc::boxed::Box;

use rand_core::RngCore;

use super::discovery::Discovery;
use super::repeats::Repeats;
use super::validation::Validation;
use crate::config::EndpointConfig;

/// What was found out of addresses, where the configuration says that it matters.
pub(super) struct Known<P> {
    /// Where sources have to be validated.
    pub(super) validation: Option<Validation>,
    /// Where requests have tokens that not every peer understands.
    pub(super) discovery: Option<Discovery>,
    /// Where repeats are paced.
    pub(super) repeats: Option<Repeats<P>>,
}

impl<P: Copy> Known<P> {
    /// `None` where nothing has to be found out.
    pub(super) fn of(config: &EndpointConfig, random: &mut impl RngCore) -> Option<Self> {
        let validation = config.validate_sources.then(|| Validation::new(random));
        let paced_peers = config.limits.paced_peers;
        let repeats = (config.pace_repeats && paced_peers > 0).then(|| Repeats::new(paced_peers));
        let discovery = Discovery::of(config);
        let something = validation.is_some() || discovery.is_some() || repeats.is_some();
        something.then_some(Self { validation, discovery, repeats })
    }

    #[inline]
    pub(super) fn repeats(known: &mut Option<Box<Self>>) -> Option<&mut Repeats<P>> {
        known.as_mut()?.repeats.as_mut()
    }
}
