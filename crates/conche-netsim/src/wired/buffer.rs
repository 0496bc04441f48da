//! A link with an explicit queue and an event per departure, for AQM, traces, changes, sleeping
//! receivers and duty cycles.

use std::collections::VecDeque;

use super::aqm::{AnyAqm, QueueState};
use super::link::{FrameOutcome, Line, LinkConfig};
use super::link_trace::{LinkTrace, OPPORTUNITY_BYTES, Opportunities};
use super::service::scaled;
use super::wakes::Windows;
use crate::packet::PacketRef;
use crate::rng::Stream;
use crate::{BitRate, Instant};

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) packet: PacketRef,
    pub(super) bytes: u32,
    pub(super) since: Instant,
}

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

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LinkAction {
    Refused(PacketRef),
    DroppedEarly(PacketRef),
    Left(PacketRef, FrameOutcome),
    Interrupted(PacketRef),
    Resumes(Instant, u32),
}

#[derive(Clone, Copy, Debug)]
struct ServedFrame {
    frame: Frame,
    /// Unsent bytes, with a trace.
    left: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    line: Line,
    trace: Option<Opportunities>,
    waiting: Fifo,
    served: Option<ServedFrame>,
    aqm: AnyAqm,
    /// The queue management's initial stream, for each change.
    management: Stream,
    /// Number of the pending resume event; others belong to interrupted transmissions.
    resumption: Option<u32>,
    resumptions: u32,
    windows: Windows,
    /// End of the silence after the last frame.
    silent_until: Instant,
    /// Time of the resume event that waits for a window or the end of a silence.
    opens: Option<Instant>,
}

impl Buffer {
    pub(super) fn new(line: Line, trace: Option<LinkTrace>, windows: Windows, management: Stream) -> Self {
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
            windows,
            silent_until: Instant::ZERO,
            opens: None,
        }
    }

    pub(super) fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    /// Returns the number of waiting frames, and their bytes.
    pub(super) fn waiting(&self) -> (u64, u64) {
        (self.waiting.frames.len() as u64, self.waiting.bytes)
    }

    pub(super) fn config(&self) -> &LinkConfig {
        &self.line.config
    }

    /// The frame in transmission keeps its departure.
    pub(super) fn change(&mut self, config: LinkConfig, now: Instant, actions: &mut Vec<LinkAction>) {
        let managed = self.line.config.aqm;
        self.line.change(config);
        if managed != config.aqm {
            let rate = mean_rate(&self.line, self.trace.as_ref());
            self.aqm = AnyAqm::new(config.aqm, rate, self.management.clone());
        }
        self.go_on(now, actions);
    }

    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        packet: PacketRef,
        payload_bytes: u32,
        actions: &mut Vec<LinkAction>,
    ) {
        let frame = Frame { packet, bytes: self.line.frame_bytes(payload_bytes), since: now };
        let in_service = self.served.map(|served| served.frame.bytes);
        let frames = self.waiting.frames.len();
        if !self.line.config.queue.has_room(frames as u64, self.waiting.bytes, in_service, frame.bytes) {
            self.aqm.overflowed();
            return actions.push(LinkAction::Refused(packet));
        }
        let found = QueueState { frames, bytes: self.waiting.bytes, idle: frames == 0 && in_service.is_none() };
        if !self.aqm.admits(now, found) {
            return actions.push(LinkAction::DroppedEarly(packet));
        }
        if let (Some(trace), true) = (&mut self.trace, found.idle) {
            trace.pass(now);
        }
        self.waiting.push(frame);
        self.go_on(now, actions);
    }

    pub(super) fn resume(&mut self, now: Instant, number: u32, actions: &mut Vec<LinkAction>) {
        if self.resumption != Some(number) {
            return;
        }
        (self.resumption, self.opens) = (None, None);
        if let Some(trace) = &mut self.trace {
            trace.take();
            self.use_opportunity(now, actions);
        } else if let Some(ServedFrame { frame, .. }) = self.served.take() {
            actions.push(LinkAction::Left(frame.packet, self.line.leave(now)));
        }
        if self.waiting.frames.is_empty() && self.served.is_none() {
            self.aqm.idle(now);
        }
        self.go_on(now, actions);
    }

    /// The receiver has sent a frame, which ends at `uplink`.
    pub(super) fn open(&mut self, uplink: Instant, now: Instant, actions: &mut Vec<LinkAction>) {
        if let Some(wakes) = &self.line.config.wakes {
            self.windows.open(wakes, uplink, now);
            self.go_on(now, actions);
        }
    }

    pub(super) fn interrupt(&mut self, now: Instant, actions: &mut Vec<LinkAction>) {
        (self.resumption, self.opens) = (None, None);
        actions.extend(self.served.take().map(|served| LinkAction::Interrupted(served.frame.packet)));
        while let Some(frame) = self.waiting.pop() {
            actions.push(LinkAction::Interrupted(frame.packet));
        }
        self.aqm.idle(now);
    }

    fn go_on(&mut self, now: Instant, actions: &mut Vec<LinkAction>) {
        if self.resumption.is_some() && self.opens.is_none() {
            return;
        }
        if let Some(trace) = &self.trace {
            let at = trace.next();
            if self.served.is_some() || !self.waiting.frames.is_empty() {
                self.resume_at(at, actions);
            }
            return;
        }
        loop {
            if !self.waiting.frames.is_empty() {
                match self.next_start(now) {
                    Some(start) if start <= now => {}
                    start => return self.wait_until(start, actions),
                }
            }
            let Some(frame) = Self::next(&mut self.aqm, &mut self.waiting, now, actions) else { return };
            self.windows.take(now);
            let Some(nanos) = self.line.service_nanos_at(now, frame.bytes) else {
                actions.push(LinkAction::Left(frame.packet, self.line.leave(now)));
                continue;
            };
            let after = |nanos| Instant::from_nanos(now.as_nanos().saturating_add(nanos));
            if self.line.config.duty_cycle < 1.0 {
                self.silent_until = after(scaled(nanos, 1.0 / self.line.config.duty_cycle));
            }
            self.served = Some(ServedFrame { frame, left: 0 });
            self.opens = None;
            return self.resume_at(after(nanos), actions);
        }
    }

    /// Returns the time at which the next transmission can begin; `None` until an uplink.
    fn next_start(&self, now: Instant) -> Option<Instant> {
        let audible = now.max(self.silent_until);
        match &self.line.config.wakes {
            None => Some(audible),
            Some(wakes) => self.windows.next(wakes, audible),
        }
    }

    fn wait_until(&mut self, start: Option<Instant>, actions: &mut Vec<LinkAction>) {
        if self.opens == start {
            return;
        }
        (self.resumption, self.opens) = (None, start);
        if let Some(start) = start {
            self.resume_at(start, actions);
        }
    }

    /// A frame that arrives at the instant of an opportunity is too late.
    fn use_opportunity(&mut self, now: Instant, actions: &mut Vec<LinkAction>) {
        let mut bytes = OPPORTUNITY_BYTES;
        while bytes > 0 {
            let served = self.served.take();
            let next = served.or_else(|| {
                self.waiting.frames.front().filter(|first| first.since < now)?;
                let frame = Self::next(&mut self.aqm, &mut self.waiting, now, actions)?;
                Some(ServedFrame { frame, left: frame.bytes })
            });
            let Some(mut served) = next else { return };
            let leaving = served.left.min(bytes);
            bytes -= leaving;
            served.left -= leaving;
            if served.left > 0 {
                self.served = Some(served);
            } else {
                actions.push(LinkAction::Left(served.frame.packet, self.line.leave(now)));
            }
        }
    }

    fn next(aqm: &mut AnyAqm, waiting: &mut Fifo, now: Instant, actions: &mut Vec<LinkAction>) -> Option<Frame> {
        aqm.next(now, waiting, |frame| actions.push(LinkAction::DroppedEarly(frame.packet)))
    }

    fn resume_at(&mut self, at: Instant, actions: &mut Vec<LinkAction>) {
        self.resumptions = self.resumptions.wrapping_add(1);
        self.resumption = Some(self.resumptions);
        actions.push(LinkAction::Resumes(at, self.resumptions));
    }
}

fn mean_rate(line: &Line, trace: Option<&Opportunities>) -> Option<BitRate> {
    let bits = |rate: BitRate| scaled(rate.as_bits(), line.config.duty_cycle.min(1.0)).max(1);
    trace.map(Opportunities::mean_rate).or_else(|| line.mean_rate().map(|rate| BitRate::bit(bits(rate))))
}

#[cfg(test)]
pub(super) mod testing {
    use super::Frame;
    use crate::Instant;
    use crate::packet::PacketRef;

    pub(in super::super) fn frame(bytes: u32, since: Instant) -> Frame {
        Frame { packet: PacketRef::default(), bytes, since }
    }
}
