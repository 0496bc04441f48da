//! A link whose frames wait in a real queue until they are transmitted, with an event for each that leaves: one with
//! active queue management, with a trace for a rate, or that changes during the run.

use std::collections::VecDeque;

use super::aqm::{AnyAqm, Found};
use super::link::{Fate, Line, LinkConfig};
use super::opportunities::{LinkTrace, OPPORTUNITY_BYTES, Opportunities};
use crate::packet::PacketRef;
use crate::rng::Stream;
use crate::{BitRate, Instant};

/// A frame that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) packet: PacketRef,
    pub(super) bytes: u32,
    pub(super) since: Instant,
}

/// Frames that wait, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    frames: VecDeque<Frame>,
    bytes: u64,
}

impl Fifo {
    pub(super) fn push(&mut self, frame: Frame) {
        self.bytes += u64::from(frame.bytes);
        self.frames.push_back(frame);
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= u64::from(frame.bytes);
        Some(frame)
    }

    /// The bytes of all that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a link has done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Done {
    /// This packet did not fit.
    Refused(PacketRef),
    /// Active queue management dropped this one.
    DroppedEarly(PacketRef),
    /// This one left the queue and is lost on the wire, or arrives.
    Left(PacketRef, Fate),
    /// The link went down over this one.
    Interrupted(PacketRef),
    /// It wants to go on at this time, and to be given this number then.
    Resumes(Instant, u32),
}

/// The frame in transmission.
#[derive(Clone, Copy, Debug)]
struct Served {
    frame: Frame,
    /// Bytes that have not left, where opportunities count them.
    left: u32,
}

/// The link at work.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    line: Line,
    trace: Option<Opportunities>,
    waiting: Fifo,
    served: Option<Served>,
    aqm: AnyAqm,
    /// What the stream of the queue management begins with after each change of it.
    management: Stream,
    /// The number of the event that goes on; another one is of a transmission that was interrupted.
    resumption: Option<u32>,
    resumptions: u32,
}

impl Buffer {
    pub(super) fn new(line: Line, trace: Option<LinkTrace>, management: Stream) -> Self {
        let trace = trace.map(Opportunities::new);
        Self {
            aqm: AnyAqm::new(line.config.aqm, mean_rate(&line, trace.as_ref()), management.clone()),
            line,
            trace,
            waiting: Fifo::default(),
            served: None,
            management,
            resumption: None,
            resumptions: 0,
        }
    }

    pub(super) fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    pub(super) fn config(&self) -> &LinkConfig {
        &self.line.config
    }

    /// From now on the link behaves in this way. The frame in transmission is transmitted as it began.
    pub(super) fn change(&mut self, config: LinkConfig, now: Instant, done: &mut Vec<Done>) {
        let managed = self.line.config.aqm;
        self.line.change(config);
        if managed != config.aqm {
            let rate = mean_rate(&self.line, self.trace.as_ref());
            self.aqm = AnyAqm::new(config.aqm, rate, self.management.clone());
        }
        self.go_on(now, done);
    }

    /// Takes a packet with this many bytes of UDP payload.
    pub(super) fn offer(&mut self, now: Instant, packet: PacketRef, payload_bytes: u32, done: &mut Vec<Done>) {
        let frame = Frame { packet, bytes: self.line.frame_bytes(payload_bytes), since: now };
        let in_service = self.served.map(|served| served.frame.bytes);
        let frames = self.waiting.frames.len();
        if !self.line.config.queue.has_room(frames as u64, self.waiting.bytes, in_service, frame.bytes) {
            self.aqm.overflowed();
            return done.push(Done::Refused(packet));
        }
        let found = Found { frames, bytes: self.waiting.bytes, idle: frames == 0 && in_service.is_none() };
        if !self.aqm.admits(now, found) {
            return done.push(Done::DroppedEarly(packet));
        }
        if let (Some(trace), true) = (&mut self.trace, found.idle) {
            // Nobody needed them; one of this very instant is gone as well.
            trace.pass(now);
        }
        self.waiting.push(frame);
        self.go_on(now, done);
    }

    /// The time has come that was asked for with this number.
    pub(super) fn resume(&mut self, now: Instant, number: u32, done: &mut Vec<Done>) {
        if self.resumption != Some(number) {
            return;
        }
        self.resumption = None;
        if let Some(trace) = &mut self.trace {
            trace.take();
            self.use_opportunity(now, done);
        } else if let Some(Served { frame, .. }) = self.served.take() {
            done.push(Done::Left(frame.packet, self.line.leave(now)));
        }
        if self.waiting.frames.is_empty() && self.served.is_none() {
            self.aqm.idle(now);
        }
        self.go_on(now, done);
    }

    /// Everything that waits or is in transmission is dropped.
    pub(super) fn interrupt(&mut self, now: Instant, done: &mut Vec<Done>) {
        self.resumption = None;
        done.extend(self.served.take().map(|served| Done::Interrupted(served.frame.packet)));
        while let Some(frame) = self.waiting.pop() {
            done.push(Done::Interrupted(frame.packet));
        }
        self.aqm.idle(now);
    }

    /// Begins what can begin now.
    fn go_on(&mut self, now: Instant, done: &mut Vec<Done>) {
        if self.resumption.is_some() {
            return;
        }
        if let Some(trace) = &self.trace {
            let at = trace.next();
            if self.served.is_some() || !self.waiting.frames.is_empty() {
                self.resume_at(at, done);
            }
            return;
        }
        while let Some(frame) = Self::next(&mut self.aqm, &mut self.waiting, now, done) {
            let Some(rate) = self.line.config.rate else {
                done.push(Done::Left(frame.packet, self.line.leave(now)));
                continue;
            };
            let nanos = self.line.service_nanos(rate, frame.bytes);
            self.served = Some(Served { frame, left: 0 });
            return self.resume_at(Instant::from_nanos(now.as_nanos().saturating_add(nanos)), done);
        }
    }

    /// Lets the bytes of an opportunity leave; a frame that comes in its very instant is too late.
    fn use_opportunity(&mut self, now: Instant, done: &mut Vec<Done>) {
        let mut bytes = OPPORTUNITY_BYTES;
        while bytes > 0 {
            let served = self.served.take();
            let next = served.or_else(|| {
                self.waiting.frames.front().filter(|first| first.since < now)?;
                let frame = Self::next(&mut self.aqm, &mut self.waiting, now, done)?;
                Some(Served { frame, left: frame.bytes })
            });
            let Some(mut served) = next else { return };
            let leaving = served.left.min(bytes);
            bytes -= leaving;
            served.left -= leaving;
            if served.left > 0 {
                self.served = Some(served);
            } else {
                done.push(Done::Left(served.frame.packet, self.line.leave(now)));
            }
        }
    }

    fn next(aqm: &mut AnyAqm, waiting: &mut Fifo, now: Instant, done: &mut Vec<Done>) -> Option<Frame> {
        aqm.next(now, waiting, |frame| done.push(Done::DroppedEarly(frame.packet)))
    }

    fn resume_at(&mut self, at: Instant, done: &mut Vec<Done>) {
        self.resumptions = self.resumptions.wrapping_add(1);
        self.resumption = Some(self.resumptions);
        done.push(Done::Resumes(at, self.resumptions));
    }
}

fn mean_rate(line: &Line, trace: Option<&Opportunities>) -> Option<BitRate> {
    trace.map(Opportunities::mean_rate).or(line.config.rate)
}

#[cfg(test)]
pub(super) mod testing {
    use super::Frame;
    use crate::Instant;
    use crate::packet::PacketRef;

    /// A frame that came then.
    pub(in super::super) fn frame(bytes: u32, since: Instant) -> Frame {
        Frame { packet: PacketRef::default(), bytes, since }
    }
}
