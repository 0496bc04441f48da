//! [`Known`]: what was found out of addresses, and what is shared with who is behind them.

use alloc::boxed::Box;

use super::discovery::Discovery;
#[cfg(feature = "oscore")]
use super::protection::Protection;
use super::repeats::Repeats;
use crate::config::EndpointConfig;

/// What was found out of addresses, where the configuration says that it matters, and what the application has added.
pub(super) struct Known<P> {
    /// Where requests have tokens that not every peer understands.
    pub(super) discovery: Option<Discovery>,
    /// Where repeats are paced.
    pub(super) repeats: Option<Repeats<P>>,
    /// What is shared with peers, where anything is.
    #[cfg(feature = "oscore")]
    pub(super) protection: Option<Protection>,
}

impl<P: Copy> Known<P> {
    /// Nothing has to be found out.
    #[cfg(feature = "oscore")]
    pub(super) const NOTHING: Self = Self { discovery: None, repeats: None, protection: None };

    /// `None` where nothing has to be found out.
    pub(super) fn of(config: &EndpointConfig) -> Option<Self> {
        let paced_peers = config.limits.paced_peers;
        let repeats = (config.pace_repeats && paced_peers > 0).then(|| Repeats::new(paced_peers));
        let discovery = Discovery::of(config);
        let something = discovery.is_some() || repeats.is_some();
        something.then_some(Self {
            discovery,
            repeats,
            #[cfg(feature = "oscore")]
            protection: None,
        })
    }

    /// Where there are security contexts.
    #[cfg(feature = "oscore")]
    #[inline]
    pub(super) fn protection(known: &mut Option<Box<Self>>) -> Option<&mut Protection> {
        known.as_mut()?.protection.as_mut()
    }

    #[inline]
    pub(super) fn discovery(known: &mut Option<Box<Self>>) -> Option<&mut Discovery> {
        known.as_mut()?.discovery.as_mut()
    }

    #[inline]
    pub(super) fn repeats(known: &mut Option<Box<Self>>) -> Option<&mut Repeats<P>> {
        known.as_mut()?.repeats.as_mut()
    }
}
