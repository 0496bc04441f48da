//! [`OscoreContexts`]: OSCORE (RFC 8613) with credentials from files.
//!
//! With a shared context, higher sequence numbers would move the server's replay window of 32
//! (§3.2.2) past a waiting request.

use std::path::PathBuf;

use conche::oscore::Keeper;
use conche_proto::Endpoint;
use conche_proto::cc::AnyController;
use conche_proto::oscore::{ContextId, Reserve};

use crate::error::Error;
use crate::schedule::Share;

/// The load never waits for the disk. There are 2⁴⁰.
const AHEAD: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct OscoreContexts(Vec<ReservedContext>);

#[derive(Debug)]
struct ReservedContext {
    keeper: Keeper,
    context: ContextId,
    kept: u64,
}

impl OscoreContexts {
    pub(crate) fn open(
        files: &[PathBuf],
        share: Share,
        endpoint: &mut Endpoint<u32, AnyController>,
    ) -> Result<Self, Error> {
        let mine = files.iter().skip(share.index as usize).step_by(share.of as usize);
        let reserved = mine.map(|file| {
            let mut keeper = Keeper::open(file)?;
            let context = keeper.start()?;
            let kept = context.next_number();
            let refused = |source| Error::Context { file: file.display().to_string(), source };
            let mut reserved =
                ReservedContext { keeper, context: endpoint.add_context(context).map_err(refused)?, kept };
            reserved.keep(endpoint, kept + 1)?;
            Ok(reserved)
        });
        reserved.collect::<Result<_, Error>>().map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn of(&self, seat: u32) -> Option<ContextId> {
        self.0.get(seat as usize).map(|reserved| reserved.context)
    }

    pub(crate) fn keep(&mut self, endpoint: &mut Endpoint<u32, AnyController>, reserve: Reserve) -> Result<(), Error> {
        match self.0.iter_mut().find(|reserved| reserved.context == reserve.context) {
            Some(reserved) => reserved.keep(endpoint, reserve.up_to),
            None => Ok(()),
        }
    }

    pub(crate) fn close(self, endpoint: &mut Endpoint<u32, AnyController>) {
        for ReservedContext { keeper, context, .. } in self.0 {
            if let Some(context) = endpoint.remove_context(context) {
                let _ = keeper.close(&context);
            }
        }
    }
}

impl ReservedContext {
    fn keep(&mut self, endpoint: &mut Endpoint<u32, AnyController>, up_to: u64) -> Result<(), Error> {
        if up_to > self.kept {
            let kept = up_to.saturating_add(AHEAD);
            self.keeper.reserve(kept).map_err(Error::Numbers)?;
            self.kept = kept;
        }
        endpoint.reserved(Reserve { context: self.context, up_to: self.kept });
        Ok(())
    }
}
