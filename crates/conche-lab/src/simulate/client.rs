//! The client: one exchange after another, until enough have succeeded.

use conche_netsim::packet::Cause;
use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code};
use conche_proto::{Course, Event, Request};

use super::application::Context;
use crate::scenario::{Range, Workload};

/// Gets the server's root resource again and again, one exchange at a time, until enough exchanges have succeeded.
#[derive(Debug)]
pub(super) struct Client {
    server: NodeId,
    exchanges: u32,
    batch: Option<Range>,
    /// How many exchanges are left of the current batch.
    left_of_batch: u32,
    completed: u32,
    completed_at: Option<Instant>,
    failed: u64,
    unnecessary: u64,
    retransmissions: Vec<u32>,
}

impl Client {
    pub(super) fn new(server: NodeId, workload: &Workload) -> Self {
        Self {
            server,
            exchanges: workload.exchanges.get(),
            batch: workload.batch,
            left_of_batch: 0,
            completed: 0,
            completed_at: None,
            failed: 0,
            unnecessary: 0,
            retransmissions: Vec::new(),
        }
    }

    /// When the last of its exchanges succeeded.
    pub(super) fn completed_at(&self) -> Option<Instant> {
        self.completed_at
    }

    /// How many exchanges have succeeded.
    pub(super) fn completed(&self) -> u32 {
        self.completed
    }

    /// How many exchanges have failed.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Copies that were sent although an earlier one of the same exchange got through.
    pub(super) fn unnecessary(&self) -> u64 {
        self.unnecessary
    }

    /// How many exchanges succeeded after 0, 1, 2, … retransmissions.
    pub(super) fn retransmissions(&self) -> &[u32] {
        &self.retransmissions
    }

    pub(super) fn start(&mut self, ctx: &mut Context<'_>) {
        self.begin_batch(ctx);
        self.ask(ctx);
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        match event {
            Event::Response { course, .. } => {
                self.succeeded(*course, ctx.cause());
                if self.completed == self.exchanges {
                    self.completed_at = Some(ctx.now());
                    return;
                }
                self.left_of_batch = self.left_of_batch.saturating_sub(1);
                if self.left_of_batch == 0 {
                    self.begin_batch(ctx);
                }
                self.ask(ctx);
            }
            Event::Failed { .. } => {
                self.failed += 1;
                self.ask(ctx);
            }
            _ => {}
        }
    }

    fn succeeded(&mut self, course: Course, cause: Option<Cause>) {
        let retransmissions = u16::try_from(course.transmissions.saturating_sub(1)).unwrap_or(u16::MAX);
        let answered = cause.and_then(|cause| cause.copy).map_or(0, |copy| u16::from(copy.attempt));
        // The first response to arrive answers the first copy that got through; all later copies were in vain.
        self.unnecessary += u64::from(retransmissions.saturating_sub(answered));
        let index = usize::from(retransmissions);
        if self.retransmissions.len() <= index {
            self.retransmissions.resize(index + 1, 0);
        }
        self.retransmissions[index] += 1;
        self.completed += 1;
    }

    /// Without batches there is one, which never ends.
    fn begin_batch(&mut self, ctx: &mut Context<'_>) {
        let Some(batch) = self.batch else {
            self.left_of_batch = u32::MAX;
            return;
        };
        ctx.reset_path(self.server);
        let (least, most) = (u64::from(batch.least()), u64::from(batch.most()));
        let drawn = ctx.rng().between(least, most);
        self.left_of_batch = u32::try_from(drawn).expect("within a range of 32-bit numbers");
    }

    fn ask(&mut self, ctx: &mut Context<'_>) {
        let request = Request::new(Code::GET, Body::EMPTY);
        ctx.request(self.server, request).expect("a client has one small exchange at a time, which every limit admits");
    }
}
