//! What stands in the place of OSCORE without the feature `oscore`: everything goes as it is.

use super::{Endpoint, RequestError};
use crate::PeerKey;
use crate::codec::{Body, Code, Overhead};
use crate::exchange::{Failure, Opening, Request};
use crate::security::Security;
use conche_cc::Controller;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) const fn security_of(&self, _: &Request) -> Security {
        Security::PLAIN
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) const fn never_protects(&self, _: &Security) -> Option<Failure> {
        None
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) const fn most_protection(&self) -> usize {
        0
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) const fn protect_opening(&mut self, _: &mut Opening) -> Result<(), RequestError> {
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) fn protect_next(&mut self, _: u32, body: Body) -> Result<Body, Failure> {
        Ok(body)
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) fn try_protect(
        &mut self,
        _: &Security,
        _: Overhead,
        (code, body): (Code, &Body),
    ) -> Option<(Code, Body)> {
        Some((code, body.clone()))
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    #[inline]
    pub(super) fn protect(&mut self, _: &Security, _: Overhead, (code, body): (Code, &Body)) -> (Code, Body) {
        (code, body.clone())
    }
}
