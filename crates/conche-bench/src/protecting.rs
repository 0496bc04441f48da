//! [`Protecting`]: requests that are protected from end to end (OSCORE, RFC 8613), with credentials in files.
//!
//! Each endpoint has a security context of its own. If several shared one, what waits at one of them would leave behind numbers that others have
//! used since, and a server, which remembers 32 of them (§3.2.2), would take it for a replay.

use std::path::PathBuf;

use conche::oscore::Keeper;
use conche_proto::Endpoint;
use conche_proto::cc::AnyController;
use conche_proto::oscore::{ContextId, Reserve};

use crate::error::Error;
use crate::schedule::Share;

/// So many numbers more than the endpoint asks for are kept at a time, so that no load waits for the disk. There are 2⁴⁰.
const AHEAD: u64 = 1 << 20;

/// The security contexts of one thread.
#[derive(Debug)]
pub(crate) struct Protecting(Vec<Held>);

#[derive(Debug)]
struct Held {
    keeper: Keeper,
    context: ContextId,
    /// Numbers below this are on the disk as used.
    kept: u64,
}

impl Protecting {
    /// Takes this thread's share of the files.
    pub(crate) fn open(
        files: &[PathBuf],
        share: Share,
        endpoint: &mut Endpoint<u32, AnyController>,
    ) -> Result<Self, Error> {
        let mine = files.iter().skip(share.index as usize).step_by(share.of as usize);
        let held = mine.map(|file| {
            let mut keeper = Keeper::open(file)?;
            let context = keeper.start()?;
            let kept = context.next_number();
            let refused = |source| Error::Context { file: file.display().to_string(), source };
            let mut held = Held { keeper, context: endpoint.add_context(context).map_err(refused)?, kept };
            held.keep(endpoint, kept + 1)?;
            Ok(held)
        });
        held.collect::<Result<_, Error>>().map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The context of a seat, if requests are protected.
    #[inline]
    pub(crate) fn of(&self, seat: u32) -> Option<ContextId> {
        self.0.get(seat as usize).map(|held| held.context)
    }

    /// Keeps numbers that are going to be used.
    pub(crate) fn keep(&mut self, endpoint: &mut Endpoint<u32, AnyController>, reserve: Reserve) -> Result<(), Error> {
        match self.0.iter_mut().find(|held| held.context == reserve.context) {
            Some(held) => held.keep(endpoint, reserve.up_to),
            None => Ok(()),
        }
    }

    /// Keeps how far each has come.
    pub(crate) fn close(self, endpoint: &mut Endpoint<u32, AnyController>) {
        for Held { keeper, context, .. } in self.0 {
            if let Some(context) = endpoint.remove_context(context) {
                // If that fails, the next start goes on behind what was kept.
                let _ = keeper.close(&context);
            }
        }
    }
}

impl Held {
    fn keep(&mut self, endpoint: &mut Endpoint<u32, AnyController>, up_to: u64) -> Result<(), Error> {
        if up_to > self.kept {
            let kept = up_to.saturating_add(AHEAD);
            self.keeper.reserve(kept).map_err(Error::Numbers)?;
            self.kept = kept;
        }
        // The endpoint takes as many as it has asked for.
        endpoint.reserved(Reserve { context: self.context, up_to: self.kept });
        Ok(())
    }
}
