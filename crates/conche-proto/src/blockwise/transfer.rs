//! [`Transfer`]: a client's request whose body, or whose response's body, goes in blocks (RFC 7959 §2.4, §2.5, §2.7).
//!
//! It says what to send next when a response has come, and knows nothing of how messages travel.

use bytes::Bytes;
use smallvec::SmallVec;

use super::cut::{is_ours, largest_fitting};
use super::download::Download;
use super::outflow::{Missing, Outflow};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, Header, MARKER_BYTES, Message, OptionNumber, Overhead, OwnedMessage,
    SIZE_BYTES, UintBytes, encode_uint,
};

/// What transfers live by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The largest blocks to send and to ask for.
    pub(crate) block_size: BlockSize,
    /// The largest message, and what each has beside its options and payload.
    pub(crate) message_bytes: usize,
    pub(crate) overhead: Overhead,
    /// The largest body.
    pub(crate) body_bytes: usize,
}

/// What a response means for a transfer.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send this next, under the same code and token.
    Next(Body),
    /// Restart the transfer with this message and a new token, so that late responses to the old
    /// token match nothing.
    Anew(Body),
    /// The response is a block for the application, which says when to [go on](Transfer::resume).
    Told,
    /// The next block of the request's body is not there yet: when it is, [go on](Transfer::resume).
    Awaited,
    /// This is the whole response.
    Done(OwnedMessage),
    /// The response itself is the answer to the request.
    AsItIs,
    /// It cannot go on.
    Failed(Trouble),
}

/// Why a transfer cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The resource changes too often.
    Changed,
    /// The body is too large, or its blocks cannot be numbered.
    TooLarge,
    /// The response's blocks do not fit together.
    Unacceptable,
}

/// A body that changes is fetched again so often; one that the server lost is sent again once.
pub(super) const FETCHED_AGAIN: u8 = 3;

/// A request that takes more than one message.
#[derive(Debug)]
pub(crate) struct Transfer {
    code: Code,
    /// The request's options, without those that say which block it is.
    head: Body,
    /// Of the request.
    payload: Outflow,
    upload: Option<Upload>,
    download: Option<Download>,
    /// The application gets the response block by block.
    tells: bool,
    /// What follows when it is [resumed](Self::resume).
    paused: Option<Paused>,
    fetched_again: u8,
    sent_again: bool,
}

/// The block of the request's body that is on its way.
#[derive(Clone, Copy, Debug)]
struct Upload {
    size: BlockSize,
    offset: usize,
    end: usize,
    more: bool,
}

/// A block that a transfer waits with.
#[derive(Clone, Copy, Debug)]
enum Paused {
    /// To send, as soon as it is there.
    Send(usize, BlockSize),
    /// To ask for, as soon as the application has taken the one before.
    Ask(usize, BlockSize),
}

impl Transfer {
    /// Of a request that the application wants to send. Nothing of it has to go in blocks yet.
    pub(crate) fn new(code: Code, body: &Body) -> Self {
        Self::with(code, body, Outflow::whole(body.payload()))
    }

    /// Of a request of whose body there is no more than the beginning yet.
    pub(crate) fn beginning(code: Code, body: &Body, announced: Option<u32>) -> Self {
        Self::with(code, body, Outflow::beginning(body.payload(), announced))
    }

    fn with(code: Code, body: &Body, payload: Outflow) -> Self {
        let head = body.rewritten(|number| !is_ours(number), &[], b"");
        let (upload, download, paused) = (None, None, None);
        Self { code, head, payload, upload, download, tells: false, paused, fetched_again: 0, sent_again: false }
    }

    /// The application gets the response block by block, and says when to go on.
    pub(crate) fn telling(self, tells: bool) -> Self {
        Self { tells, ..self }
    }

    /// The request's body goes in blocks from the start; the first message. `None` if no block fits into a message, or the
    /// first is not there.
    pub(crate) fn begin(&mut self, rules: &Rules) -> Option<Body> {
        let size = self.largest_size(rules)?;
        self.send(0, size).ok()
    }

    /// The largest blocks of the request's body that fit into messages.
    fn largest_size(&self, rules: &Rules) -> Option<BlockSize> {
        let others = rules.overhead.with(self.head.len() + BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES);
        largest_fitting(rules.block_size, others, rules.message_bytes)
    }

    /// More of the request's body; `false` if it was complete.
    pub(crate) fn supply(&mut self, more: Bytes, last: bool) -> bool {
        self.payload.supply(more, last)
    }

    /// How many bytes of the request's body are wanted to go on, if that is to be told.
    pub(crate) fn wants(&mut self) -> Option<usize> {
        let (offset, size) = match self.paused {
            Some(Paused::Send(offset, size)) => (offset, size),
            Some(Paused::Ask(..)) => return None,
            // The response has begun, so that nobody waits for the rest.
            None if self.download.is_some() => return None,
            None => self.upload.filter(|upload| upload.more).map(|upload| (upload.end, upload.size))?,
        };
        self.payload.wants(offset, size)
    }

    /// It waits for the application to take a block of the response.
    pub(crate) const fn is_told(&self) -> bool {
        matches!(self.paused, Some(Paused::Ask(..)))
    }

    /// It waits for more of the request's body.
    pub(crate) const fn awaits_supply(&self) -> bool {
        matches!(self.paused, Some(Paused::Send(..)))
    }

    /// Goes on from where it paused, if it can.
    pub(crate) fn resume(&mut self, rules: &Rules) -> Step {
        match self.paused.take() {
            Some(Paused::Send(offset, size)) => self.next(offset, size),
            Some(Paused::Ask(offset, size)) => self.ask(offset, size, rules),
            None => Step::Awaited,
        }
    }

    /// The bytes that it takes in memory beside what it shares with others.
    pub(crate) fn bytes(&self) -> usize {
        self.download.as_ref().map_or(0, Download::capacity)
    }

    /// A response concerns blocks, so that a request which has gone without them so far becomes a transfer.
    #[inline]
    pub(crate) fn is_begun_by(response: &Message<'_>) -> bool {
        // Whether the value is a legal one is looked at later: what is none must not pass for a whole body.
        let has = |number| response.options().any(|option| option.number == number);
        match response.code() {
            Code::REQUEST_ENTITY_TOO_LARGE => has(OptionNumber::BLOCK1),
            // What ends with its first block is whole.
            _ => response
                .options()
                .find(|option| option.number == OptionNumber::BLOCK2)
                .is_some_and(|option| Block::decode(option.value).map_or(true, |block| block.num > 0 || block.more)),
        }
    }

    /// The response to the message that was sent last.
    pub(crate) fn answer(&mut self, response: &Message<'_>, rules: &Rules) -> Step {
        if self.download.is_none()
            && let Some(step) = self.answer_upload(response, rules)
        {
            return step;
        }
        match response.block(OptionNumber::BLOCK2) {
            Err(_) => Step::Failed(Trouble::Unacceptable),
            // An error in the middle is the response, and so is what became small enough.
            Ok(None) if !self.tells || self.download.is_none() || !response.code().is_success() => Step::AsItIs,
            // What was told of the body is of another state.
            Ok(None) => Step::Failed(Trouble::Changed),
            Ok(Some(block)) => self.answer_download(response, block, rules),
        }
    }

    /// What follows of the request's body; `None` if this is the response to the whole of it.
    fn answer_upload(&mut self, response: &Message<'_>, rules: &Rules) -> Option<Step> {
        let code = response.code();
        let Ok(block1) = response.block(OptionNumber::BLOCK1) else {
            return Some(Step::Failed(Trouble::Unacceptable));
        };
        let upload = self.upload;
        if code == Code::REQUEST_ENTITY_TOO_LARGE {
            // "with a smaller value for SZX", it is a hint to try again with that (RFC 7959 §2.9.3).
            // Nothing says that such a block fits where the body went otherwise before.
            let hint = block1?.size.min(self.largest_size(rules)?);
            let smaller = upload.map_or(self.payload.kept().len() > hint.bytes(), |upload| hint < upload.size);
            return (smaller && self.begins()).then(|| self.begin_anew(hint));
        }
        let upload = upload?;
        if code == Code::REQUEST_ENTITY_INCOMPLETE && upload.offset > 0 && !self.sent_again && self.begins() {
            self.sent_again = true;
            return Some(self.begin_anew(upload.size));
        }
        // Success without Block1 answers the request, whatever of it has been sent; with it, this block was taken for
        // itself (RFC 7959 §2.3).
        let goes_on = code == Code::CONTINUE || (code.is_success() && block1.is_some());
        if !goes_on || !upload.more {
            return None;
        }
        // The server may want smaller blocks from here on: late negotiation (RFC 7959 §2.3).
        let size = block1.map_or(upload.size, |block| block.size.min(upload.size));
        Some(self.next(upload.end, size))
    }

    /// Returns `true` if this response answers an earlier message of this transfer, which had the
    /// same token: it acknowledges another block than the outstanding one, or brings a block again.
    /// An error is never late, since the first error ends the transfer, or restarts it with another
    /// token.
    pub(crate) fn is_late(&self, response: &Message<'_>) -> bool {
        if let Some(download) = &self.download {
            let block = response.block(OptionNumber::BLOCK2).ok().flatten();
            let has_arrived = |block: Block| block.offset() < download.len() && download.belongs(response);
            return response.code() == Code::CONTINUE
                || response.code() == download.code() && block.is_some_and(has_arrived);
        }
        let Some(upload) = self.upload.filter(|_| response.code().is_success()) else { return false };
        let acknowledged = response.block(OptionNumber::BLOCK1).ok().flatten();
        // A server that wants smaller blocks counts in the old size or in the new one.
        acknowledged.is_some_and(|block| {
            block.offset() != upload.offset && block.num as usize != upload.offset / upload.size.bytes()
        })
    }

    /// A block of the response arrived.
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
            // An error is the response, and so is another success if it is whole and nothing was told of the body.
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

    /// The body changed between two blocks: "the client MUST NOT" put them together (RFC 7959 §2.4). It begins anew, unless
    /// asking again could have another effect.
    fn fetch_again(&mut self, rules: &Rules) -> Step {
        self.fetched_again += 1;
        if self.fetched_again > FETCHED_AGAIN || !self.code.is_safe() || self.upload.is_some() || self.tells {
            return Step::Failed(Trouble::Changed);
        }
        self.download = None;
        anew(self.ask(0, rules.block_size, rules))
    }

    /// The request's body can be sent from its beginning.
    fn begins(&self) -> bool {
        self.payload.is_whole() || self.upload.is_none_or(|upload| upload.offset == 0)
    }

    /// Sends a block of the request's body.
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

    /// Sends the request's body from its beginning.
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

    /// Asks for a block of the response's body. Of the request's own body nothing goes with it: the server has it. Only
    /// FETCH is what it is with its body, and has it again if that is all in one message.
    fn ask(&self, offset: usize, size: BlockSize, rules: &Rules) -> Step {
        let payload: &[u8] = if self.code == Code::FETCH && self.upload.is_none() { self.payload.kept() } else { &[] };
        let Some(block) = Block::at(offset, false, size) else { return Step::Failed(Trouble::TooLarge) };
        // An observation is registered with the first block, and not once more with each (RFC 7959 §2.6).
        let kept = |number| number != OptionNumber::OBSERVE;
        let body = self.head.rewritten(kept, &[(OptionNumber::BLOCK2, block.encode())], payload);
        if !rules.overhead.fits(&body, rules.message_bytes) {
            return Step::Failed(Trouble::TooLarge);
        }
        Step::Next(body)
    }
}

/// Turns the next message into the first message of a restarted transfer.
fn anew(step: Step) -> Step {
    match step {
        Step::Next(body) => Step::Anew(body),
        step => step,
    }
}
