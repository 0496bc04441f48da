//! [`Transfer`]: a client's block-wise request, for its own body or that of its response (RFC 7959
//! §2.4, §2.5, §2.7).
//!
//! It determines the next message after a response, independent of the transport.

use bytes::Bytes;
use smallvec::SmallVec;

use super::cut::{is_ours, largest_fitting};
use super::download::Download;
use super::outflow::{Missing, Outflow};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, Header, MARKER_BYTES, Message, OptionNumber, Overhead, OwnedMessage,
    SIZE_BYTES, UintBytes, encode_uint,
};

/// Limits of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The maximum block size to send and to request.
    pub(crate) block_size: BlockSize,
    /// The maximum message size, and the overhead of each message.
    pub(crate) message_bytes: usize,
    pub(crate) overhead: Overhead,
    pub(crate) body_bytes: usize,
}

/// The next step of a transfer after a response.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send this message with the same code and token.
    Next(Body),
    /// Restart the transfer with this message and a new token, so that late responses to the old
    /// token match nothing.
    Anew(Body),
    /// The response is a block for the application, which decides when to
    /// [continue](Transfer::resume).
    Told,
    /// The next block of the request is not available; [continue](Transfer::resume) when it is.
    Awaited,
    /// Complete, with this response.
    Done(OwnedMessage),
    /// Complete; the received message is the response.
    AsItIs,
    /// The transfer failed.
    Failed(Trouble),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The resource changes too often.
    Changed,
    /// The body is too large, or its block numbers are.
    TooLarge,
    /// The blocks of the response are inconsistent.
    Unacceptable,
}

/// Maximum number of restarts of a download after changes of the body. An upload lost by the server
/// is restarted once.
pub(super) const FETCHED_AGAIN: u8 = 3;

/// A request of more than one message.
#[derive(Debug)]
pub(crate) struct Transfer {
    code: Code,
    /// Options of the request without block options.
    head: Body,
    payload: Outflow,
    upload: Option<Upload>,
    download: Option<Download>,
    /// The application receives the response block by block.
    tells: bool,
    /// The next step when [resumed](Self::resume).
    paused: Option<Paused>,
    fetched_again: u8,
    sent_again: bool,
}

/// The outstanding block of the request's body.
#[derive(Clone, Copy, Debug)]
struct Upload {
    size: BlockSize,
    offset: usize,
    end: usize,
    more: bool,
}

/// The step of a paused transfer.
#[derive(Clone, Copy, Debug)]
enum Paused {
    /// Send this block when it is available.
    Send(usize, BlockSize),
    /// Request this block when the application has accepted the previous one.
    Ask(usize, BlockSize),
}

impl Transfer {
    /// Creates a transfer for a request, which need not be block-wise yet.
    pub(crate) fn new(code: Code, body: &Body) -> Self {
        Self::with(code, body, Outflow::whole(body.payload()))
    }

    /// Creates a transfer for a request with only the start of its body.
    pub(crate) fn beginning(code: Code, body: &Body, announced: Option<u32>) -> Self {
        Self::with(code, body, Outflow::beginning(body.payload(), announced))
    }

    fn with(code: Code, body: &Body, payload: Outflow) -> Self {
        let head = body.rewritten(|number| !is_ours(number), &[], b"");
        let (upload, download, paused) = (None, None, None);
        Self { code, head, payload, upload, download, tells: false, paused, fetched_again: 0, sent_again: false }
    }

    /// Sets whether the application receives the response block by block.
    pub(crate) fn telling(self, tells: bool) -> Self {
        Self { tells, ..self }
    }

    /// Starts a block-wise upload; returns its first message. `None` if no block fits into a
    /// message, or the first block is not available.
    pub(crate) fn begin(&mut self, rules: &Rules) -> Option<Body> {
        let size = self.largest_size(rules)?;
        self.send(0, size).ok()
    }

    /// Returns the largest block size for the request's body.
    fn largest_size(&self, rules: &Rules) -> Option<BlockSize> {
        let others = rules.overhead.with(self.head.len() + BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES);
        largest_fitting(rules.block_size, others, rules.message_bytes)
    }

    /// Appends a part of the request's body; returns `false` if it was complete.
    pub(crate) fn supply(&mut self, more: Bytes, last: bool) -> bool {
        self.payload.supply(more, last)
    }

    /// Returns the number of bytes needed from the application, if it was not asked yet.
    pub(crate) fn wants(&mut self) -> Option<usize> {
        let (offset, size) = match self.paused {
            Some(Paused::Send(offset, size)) => (offset, size),
            Some(Paused::Ask(..)) => return None,
            // The response has started, so the rest of the request is not needed.
            None if self.download.is_some() => return None,
            None => self.upload.filter(|upload| upload.more).map(|upload| (upload.end, upload.size))?,
        };
        self.payload.wants(offset, size)
    }

    /// Returns `true` if the application must accept a block of the response.
    pub(crate) const fn is_told(&self) -> bool {
        matches!(self.paused, Some(Paused::Ask(..)))
    }

    /// Returns `true` if the application must supply more of the request's body.
    pub(crate) const fn awaits_supply(&self) -> bool {
        matches!(self.paused, Some(Paused::Send(..)))
    }

    /// Continues a paused transfer, if possible.
    pub(crate) fn resume(&mut self, rules: &Rules) -> Step {
        match self.paused.take() {
            Some(Paused::Send(offset, size)) => self.next(offset, size),
            Some(Paused::Ask(offset, size)) => self.ask(offset, size, rules),
            None => Step::Awaited,
        }
    }

    /// Returns its memory in bytes, without shared memory.
    pub(crate) fn bytes(&self) -> usize {
        self.download.as_ref().map_or(0, Download::capacity)
    }

    /// Returns `true` if the response concerns blocks, so that an ordinary request becomes a
    /// transfer.
    #[inline]
    pub(crate) fn is_begun_by(response: &Message<'_>) -> bool {
        // The value is validated later: an invalid one must not pass for a whole body.
        let has = |number| response.options().any(|option| option.number == number);
        match response.code() {
            Code::REQUEST_ENTITY_TOO_LARGE => has(OptionNumber::BLOCK1),
            // A body of a single block is whole.
            _ => response
                .options()
                .find(|option| option.number == OptionNumber::BLOCK2)
                .is_some_and(|option| Block::decode(option.value).map_or(true, |block| block.num > 0 || block.more)),
        }
    }

    pub(crate) fn answer(&mut self, response: &Message<'_>, rules: &Rules) -> Step {
        if self.download.is_none()
            && let Some(step) = self.answer_upload(response, rules)
        {
            return step;
        }
        match response.block(OptionNumber::BLOCK2) {
            Err(_) => Step::Failed(Trouble::Unacceptable),
            // An error during the transfer is the response, as is a body that no longer needs
            // blocks.
            Ok(None) if !self.tells || self.download.is_none() || !response.code().is_success() => Step::AsItIs,
            // Blocks already delivered belong to another state.
            Ok(None) => Step::Failed(Trouble::Changed),
            Ok(Some(block)) => self.answer_download(response, block, rules),
        }
    }

    /// Continues the upload; returns `None` for the response to the whole request.
    fn answer_upload(&mut self, response: &Message<'_>, rules: &Rules) -> Option<Step> {
        let code = response.code();
        let Ok(block1) = response.block(OptionNumber::BLOCK1) else {
            return Some(Step::Failed(Trouble::Unacceptable));
        };
        let upload = self.upload;
        if code == Code::REQUEST_ENTITY_TOO_LARGE {
            // A "smaller value for SZX" is a hint to try again with that size (RFC 7959 §2.9.3).
            // Such a block need not fit if the body was sent unblocked before.
            let hint = block1?.size.min(self.largest_size(rules)?);
            let smaller = upload.map_or(self.payload.kept().len() > hint.bytes(), |upload| hint < upload.size);
            return (smaller && self.begins()).then(|| self.begin_anew(hint));
        }
        let upload = upload?;
        if code == Code::REQUEST_ENTITY_INCOMPLETE && upload.offset > 0 && !self.sent_again && self.begins() {
            self.sent_again = true;
            return Some(self.begin_anew(upload.size));
        }
        // Success without Block1 is the response to the request, regardless of the part sent; with
        // Block1, this block was processed individually (RFC 7959 §2.3).
        let goes_on = code == Code::CONTINUE || (code.is_success() && block1.is_some());
        if !goes_on || !upload.more {
            return None;
        }
        // The server may request smaller blocks from here on: late negotiation (RFC 7959 §2.3).
        let size = block1.map_or(upload.size, |block| block.size.min(upload.size));
        Some(self.next(upload.end, size))
    }

    /// Returns `true` if this response answers an earlier message of this transfer with the same
    /// token: it acknowledges another block than the outstanding one, or repeats a block. Errors
    /// are never late, since the first error ends the transfer or restarts it with another token.
    pub(crate) fn is_late(&self, response: &Message<'_>) -> bool {
        if let Some(download) = &self.download {
            let block = response.block(OptionNumber::BLOCK2).ok().flatten();
            let has_arrived = |block: Block| block.offset() < download.len() && download.belongs(response);
            return response.code() == Code::CONTINUE
                || response.code() == download.code() && block.is_some_and(has_arrived);
        }
        let Some(upload) = self.upload.filter(|_| response.code().is_success()) else { return false };
        let acknowledged = response.block(OptionNumber::BLOCK1).ok().flatten();
        // A server that requests smaller blocks counts in the old or the new size.
        acknowledged.is_some_and(|block| {
            block.offset() != upload.offset && block.num as usize != upload.offset / upload.size.bytes()
        })
    }

    /// Handles a block of the response.
    fn answer_download(&mut self, response: &Message<'_>, block: Block, rules: &Rules) -> Step {
        let payload = response.payload();
        if block.more && payload.len() != block.size.bytes() || payload.len() > block.size.bytes() {
            return Step::Failed(Trouble::Unacceptable);
        }
        let announced = response.uint(OptionNumber::SIZE2).map_or(0, |size| size as usize);
        let most = if self.tells { usize::MAX } else { rules.body_bytes };
        let download = match &mut self.download {
            None if block.num > 0 => return Step::Failed(Trouble::Unacceptable),
            None if !block.more => return Step::AsItIs,
            None if announced > most => return Step::Failed(Trouble::TooLarge),
            None => self.download.insert(Download::new(response, self.tells)),
            // An error is the response, as is another success if it is whole and no block was
            // delivered.
            Some(download) if download.code() != response.code() => {
                let whole = !response.code().is_success() || !self.tells && block.num == 0 && !block.more;
                return if whole { Step::AsItIs } else { Step::Failed(Trouble::Changed) };
            }
            Some(download) if !download.belongs(response) => return self.fetch_again(rules),
            Some(download) if !download.follows(block) => return Step::Failed(Trouble::Unacceptable),
            Some(download) => download,
        };
        if download.len().saturating_add(payload.len()) > most {
            return Step::Failed(Trouble::TooLarge);
        }
        download.push(payload, if block.more { most } else { 0 });
        if block.more {
            let (offset, size) = (download.len(), block.size.min(rules.block_size));
            if self.tells {
                self.paused = Some(Paused::Ask(offset, size));
                return Step::Told;
            }
            return self.ask(offset, size, rules);
        }
        if self.tells {
            return Step::AsItIs;
        }
        let header = Header { ty: response.ty(), code: response.code(), id: response.id() };
        let joined = self.download.take().and_then(Download::into_joined);
        let whole = joined.and_then(|joined| joined.finish(header, &response.token()));
        whole.map_or(Step::Failed(Trouble::Unacceptable), Step::Done)
    }

    /// Restarts a download whose body changed between two blocks, which must not be combined
    /// (RFC 7959 §2.4), unless repeating the request could have another effect.
    fn fetch_again(&mut self, rules: &Rules) -> Step {
        self.fetched_again += 1;
        if self.fetched_again > FETCHED_AGAIN || !self.code.is_safe() || self.upload.is_some() || self.tells {
            return Step::Failed(Trouble::Changed);
        }
        self.download = None;
        anew(self.ask(0, rules.block_size, rules))
    }

    /// Returns `true` if the request's body can be sent from its start.
    fn begins(&self) -> bool {
        self.payload.is_whole() || self.upload.is_none_or(|upload| upload.offset == 0)
    }

    fn send(&mut self, offset: usize, size: BlockSize) -> Result<Body, Missing> {
        let (payload, block) = self.payload.block(offset, size)?;
        if !self.payload.is_whole() {
            self.payload.forget_before(offset);
        }
        self.upload = Some(Upload { size, offset, end: offset + payload.len(), more: block.more });
        let mut added: SmallVec<[(OptionNumber, UintBytes); 2]> = SmallVec::new();
        added.push((OptionNumber::BLOCK1, block.encode()));
        let announced = self.payload.announced().filter(|_| offset == 0);
        added.extend(announced.map(|bytes| (OptionNumber::SIZE1, encode_uint(bytes))));
        Ok(self.head.rewritten(|_| true, &added, &payload))
    }

    /// Restarts the upload.
    fn begin_anew(&mut self, size: BlockSize) -> Step {
        anew(self.next(0, size))
    }

    fn next(&mut self, offset: usize, size: BlockSize) -> Step {
        match self.send(offset, size) {
            Ok(body) => Step::Next(body),
            Err(Missing::Later(_)) => {
                self.paused = Some(Paused::Send(offset, size));
                Step::Awaited
            }
            Err(Missing::BeyondTheEnd | Missing::Gone) => Step::Failed(Trouble::TooLarge),
        }
    }

    /// Requests a block of the response. The request's body is not repeated, because the server has
    /// it. Only FETCH repeats its body, if it fits into one message.
    fn ask(&self, offset: usize, size: BlockSize, rules: &Rules) -> Step {
        let payload: &[u8] = if self.code == Code::FETCH && self.upload.is_none() { self.payload.kept() } else { &[] };
        let Some(block) = Block::at(offset, false, size) else { return Step::Failed(Trouble::TooLarge) };
        // Only the first block registers an observation (RFC 7959 §2.6).
        let kept = |number| number != OptionNumber::OBSERVE;
        let body = self.head.rewritten(kept, &[(OptionNumber::BLOCK2, block.encode())], payload);
        if !rules.overhead.fits(&body, rules.message_bytes) {
            return Step::Failed(Trouble::TooLarge);
        }
        Step::Next(body)
    }
}

/// Marks the next message as the first of a restarted transfer.
fn anew(step: Step) -> Step {
    match step {
        Step::Next(body) => Step::Anew(body),
        step => step,
    }
}
