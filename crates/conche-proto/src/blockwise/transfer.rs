//! [`Transfer`]: a client's block-wise request or response (RFC 7959 §2.4, §2.5, §2.7);
//! [`OutgoingBody`]: an outgoing body of either role.

use alloc::vec::Vec;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{cut, largest_fitting};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, Header, JoinedBody, MARKER_BYTES, Message, OptionNumber, Overhead,
    OwnedMessage, SIZE_BYTES, UintBytes, encode_uint,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) block_size: BlockSize,
    /// Maximum message size, and the overhead of each message.
    pub(crate) message_bytes: usize,
    pub(crate) overhead: Overhead,
    pub(crate) body_bytes: usize,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// Send this with the same code and token.
    Next(Body),
    /// A new token, which late responses do not match.
    Restart(Body),
    /// A block for the application, which then [continues](Transfer::resume).
    Received,
    /// [Continue](Transfer::resume) once the next block of the request is available.
    AwaitsSupply,
    /// Complete, with this response.
    Done(OwnedMessage),
    Unchanged,
    Failed(TransferError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferError {
    /// The resource changes too often.
    Changed,
    /// The body or its block numbers are too large.
    TooLarge,
    /// The blocks of the response are inconsistent.
    Unacceptable,
}

/// Maximum number of restarts of a download after changes of the body.
pub(crate) const FETCHED_AGAIN: u8 = 3;

#[derive(Debug)]
pub(crate) struct Transfer {
    code: Code,
    head: Body,
    payload: OutgoingBody,
    upload: Option<Upload>,
    download: Option<Download>,
    /// The application receives the response block by block.
    per_block: bool,
    /// The next step when [resumed](Self::resume).
    paused: Option<Paused>,
    fetched_again: u8,
    sent_again: bool,
}

#[derive(Clone, Copy, Debug)]
struct Upload {
    size: BlockSize,
    offset: usize,
    end: usize,
    more: bool,
}

#[derive(Clone, Copy, Debug)]
enum Paused {
    Send(usize, BlockSize),
    /// Request this block after the application has accepted the previous one.
    Ask(usize, BlockSize),
}

impl Transfer {
    pub(crate) fn new(code: Code, body: &Body) -> Self {
        Self::with(code, body, OutgoingBody::whole(body.payload()))
    }

    pub(crate) fn beginning(code: Code, body: &Body, announced: Option<u32>) -> Self {
        Self::with(code, body, OutgoingBody::beginning(body.payload(), announced))
    }

    fn with(code: Code, body: &Body, payload: OutgoingBody) -> Self {
        let head = body.rewritten(|number| !number.describes_blocks(), &[], b"");
        let (upload, download, paused) = (None, None, None);
        Self { code, head, payload, upload, download, per_block: false, paused, fetched_again: 0, sent_again: false }
    }

    pub(crate) fn deliver_per_block(self, per_block: bool) -> Self {
        Self { per_block, ..self }
    }

    /// Returns the first message; `None` if no block fits or the first is unavailable.
    pub(crate) fn begin(&mut self, rules: &Rules) -> Option<Body> {
        let size = self.largest_size(rules)?;
        self.send(0, size).ok()
    }

    fn largest_size(&self, rules: &Rules) -> Option<BlockSize> {
        let others = rules.overhead.with(self.head.len() + BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES);
        largest_fitting(rules.block_size, others, rules.message_bytes)
    }

    /// Returns `false` if the body was complete.
    pub(crate) fn supply(&mut self, more: Bytes, last: bool) -> bool {
        self.payload.supply(more, last)
    }

    /// Returns the number of bytes to request from the application, if not yet requested.
    pub(crate) fn wants(&mut self) -> Option<usize> {
        let (offset, size) = match self.paused {
            Some(Paused::Send(offset, size)) => (offset, size),
            Some(Paused::Ask(..)) => return None,
            // The response has started.
            None if self.download.is_some() => return None,
            None => self.upload.filter(|upload| upload.more).map(|upload| (upload.end, upload.size))?,
        };
        self.payload.wants(offset, size)
    }

    pub(crate) const fn awaits_application(&self) -> bool {
        matches!(self.paused, Some(Paused::Ask(..)))
    }

    pub(crate) const fn awaits_supply(&self) -> bool {
        matches!(self.paused, Some(Paused::Send(..)))
    }

    pub(crate) fn resume(&mut self, rules: &Rules) -> Step {
        match self.paused.take() {
            Some(Paused::Send(offset, size)) => self.next(offset, size),
            Some(Paused::Ask(offset, size)) => self.ask(offset, size, rules),
            None => Step::AwaitsSupply,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.download.as_ref().map_or(0, Download::capacity)
    }

    pub(crate) fn answer(&mut self, response: &Message<'_>, rules: &Rules) -> Step {
        if self.download.is_none()
            && let Some(step) = self.answer_upload(response, rules)
        {
            return step;
        }
        match response.block(OptionNumber::BLOCK2) {
            Err(_) => Step::Failed(TransferError::Unacceptable),
            // An error is the response, as is a body that no longer needs blocks.
            Ok(None) if !self.per_block || self.download.is_none() || !response.code().is_success() => Step::Unchanged,
            // Blocks already delivered belong to another state.
            Ok(None) => Step::Failed(TransferError::Changed),
            Ok(Some(block)) => self.answer_download(response, block, rules),
        }
    }

    /// Continues the upload; `None` for the response to the whole request.
    fn answer_upload(&mut self, response: &Message<'_>, rules: &Rules) -> Option<Step> {
        let code = response.code();
        let Ok(block1) = response.block(OptionNumber::BLOCK1) else {
            return Some(Step::Failed(TransferError::Unacceptable));
        };
        let upload = self.upload;
        if code == Code::REQUEST_ENTITY_TOO_LARGE {
            // A "smaller value for SZX" is a hint (RFC 7959 §2.9.3). The block need not fit after
            // an unblocked body.
            let hint = block1?.size.min(self.largest_size(rules)?);
            let smaller = upload.map_or(self.payload.kept().len() > hint.bytes(), |upload| hint < upload.size);
            return (smaller && self.begins()).then(|| self.begin_again(hint));
        }
        let upload = upload?;
        if code == Code::REQUEST_ENTITY_INCOMPLETE && upload.offset > 0 && !self.sent_again && self.begins() {
            self.sent_again = true;
            return Some(self.begin_again(upload.size));
        }
        // Success without Block1 answers the request; with it, only this block was processed (RFC
        // 7959 §2.3).
        let goes_on = code == Code::CONTINUE || (code.is_success() && block1.is_some());
        if !goes_on || !upload.more {
            return None;
        }
        // Late negotiation of smaller blocks (RFC 7959 §2.3).
        let size = block1.map_or(upload.size, |block| block.size.min(upload.size));
        Some(self.next(upload.end, size))
    }

    /// Returns `true` if this answers an earlier message with the same token: it acknowledges
    /// another than the outstanding block, or repeats a block. Errors are never late: the first
    /// ends or restarts the transfer.
    pub(crate) fn is_late(&self, response: &Message<'_>) -> bool {
        if let Some(download) = &self.download {
            let block = response.block(OptionNumber::BLOCK2).ok().flatten();
            let has_arrived = |block: Block| block.offset() < download.len() && download.belongs(response);
            return response.code() == Code::CONTINUE
                || response.code() == download.code() && block.is_some_and(has_arrived);
        }
        let Some(upload) = self.upload.filter(|_| response.code().is_success()) else { return false };
        let acknowledged = response.block(OptionNumber::BLOCK1).ok().flatten();
        // The server may count in the old or the new size.
        acknowledged.is_some_and(|block| {
            block.offset() != upload.offset && block.num as usize != upload.offset / upload.size.bytes()
        })
    }

    fn answer_download(&mut self, response: &Message<'_>, block: Block, rules: &Rules) -> Step {
        let payload = response.payload();
        if block.more && payload.len() != block.size.bytes() || payload.len() > block.size.bytes() {
            return Step::Failed(TransferError::Unacceptable);
        }
        let announced = response.uint(OptionNumber::SIZE2).map_or(0, |size| size as usize);
        let most = if self.per_block { usize::MAX } else { rules.body_bytes };
        let download = match &mut self.download {
            None if block.num > 0 => return Step::Failed(TransferError::Unacceptable),
            None if !block.more => return Step::Unchanged,
            None if announced > most => return Step::Failed(TransferError::TooLarge),
            None => self.download.insert(Download::new(response, self.per_block)),
            // An error is the response, as is another whole success before any delivered block.
            Some(download) if download.code() != response.code() => {
                let whole = !response.code().is_success() || !self.per_block && block.num == 0 && !block.more;
                return if whole { Step::Unchanged } else { Step::Failed(TransferError::Changed) };
            }
            Some(download) if !download.belongs(response) => return self.fetch_again(rules),
            Some(download) if !download.follows(block) => return Step::Failed(TransferError::Unacceptable),
            Some(download) => download,
        };
        if download.len().saturating_add(payload.len()) > most {
            return Step::Failed(TransferError::TooLarge);
        }
        download.push(payload, if block.more { most } else { 0 });
        if block.more {
            let (offset, size) = (download.len(), block.size.min(rules.block_size));
            if self.per_block {
                self.paused = Some(Paused::Ask(offset, size));
                return Step::Received;
            }
            return self.ask(offset, size, rules);
        }
        if self.per_block {
            return Step::Unchanged;
        }
        let header = Header { ty: response.ty(), code: response.code(), id: response.id() };
        let joined = self.download.take().and_then(Download::into_joined);
        let whole = joined.and_then(|joined| joined.finish(header, &response.token()));
        whole.map_or(Step::Failed(TransferError::Unacceptable), Step::Done)
    }

    /// Restarts a download after a change of the body (RFC 7959 §2.4), unless this could have
    /// another effect.
    fn fetch_again(&mut self, rules: &Rules) -> Step {
        self.fetched_again += 1;
        if self.fetched_again > FETCHED_AGAIN || !self.code.is_safe() || self.upload.is_some() || self.per_block {
            return Step::Failed(TransferError::Changed);
        }
        self.download = None;
        restarted(self.ask(0, rules.block_size, rules))
    }

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

    fn begin_again(&mut self, size: BlockSize) -> Step {
        restarted(self.next(0, size))
    }

    fn next(&mut self, offset: usize, size: BlockSize) -> Step {
        match self.send(offset, size) {
            Ok(body) => Step::Next(body),
            Err(Missing::Later(_)) => {
                self.paused = Some(Paused::Send(offset, size));
                Step::AwaitsSupply
            }
            Err(Missing::BeyondTheEnd | Missing::Gone) => Step::Failed(TransferError::TooLarge),
        }
    }

    /// Requests a block of the response. Only FETCH repeats its body, if it fits into one message.
    fn ask(&self, offset: usize, size: BlockSize, rules: &Rules) -> Step {
        let payload: &[u8] = if self.code == Code::FETCH && self.upload.is_none() { self.payload.kept() } else { &[] };
        let Some(block) = Block::at(offset, false, size) else { return Step::Failed(TransferError::TooLarge) };
        // Only the first block registers an observation (RFC 7959 §2.6).
        let kept = |number| number != OptionNumber::OBSERVE;
        let body = self.head.rewritten(kept, &[(OptionNumber::BLOCK2, block.encode())], payload);
        if !rules.overhead.fits(&body, rules.message_bytes) {
            return Step::Failed(TransferError::TooLarge);
        }
        Step::Next(body)
    }
}

fn restarted(step: Step) -> Step {
    match step {
        Step::Next(body) => Step::Restart(body),
        step => step,
    }
}

#[derive(Debug)]
pub(crate) struct Download {
    code: Code,
    /// Received payload bytes.
    len: usize,
    /// `None` if the application receives each block.
    joined: Option<JoinedBody>,
    identity: BodyIdentity,
}

/// ETag and Content-Format, which distinguish bodies (RFC 7959 §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyIdentity {
    etag: Option<([u8; 8], usize)>,
    format: Option<u32>,
}

impl BodyIdentity {
    pub(crate) fn of(response: &Message<'_>) -> Self {
        let etag = response.option(OptionNumber::ETAG).map(|etag| {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(etag).for_each(|(byte, given)| *byte = *given);
            (bytes, etag.len())
        });
        Self { etag, format: response.uint(OptionNumber::CONTENT_FORMAT) }
    }
}

impl Download {
    /// With `per_block`, the application receives each block instead of a joined body.
    pub(crate) fn new(response: &Message<'_>, per_block: bool) -> Self {
        let joined = (!per_block).then(|| JoinedBody::new(&response.content(), |number| !number.describes_blocks()));
        Self { code: response.code(), len: 0, joined, identity: BodyIdentity::of(response) }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.joined.as_ref().map_or(0, JoinedBody::capacity)
    }

    /// Returns `true` for a block of the same body. With an ETag, later blocks may omit the
    /// Content-Format, as node-coap does from the third on.
    pub(crate) fn belongs(&self, response: &Message<'_>) -> bool {
        let identity = BodyIdentity::of(response);
        let omits_format = identity.etag.is_some() && identity.format.is_none();
        identity.etag == self.identity.etag && (omits_format || identity.format == self.identity.format)
    }

    pub(crate) fn follows(&self, block: Block) -> bool {
        block.offset() == self.len
    }

    pub(crate) fn push(&mut self, payload: &[u8], most: usize) {
        self.len = self.len.saturating_add(payload.len());
        if let Some(joined) = &mut self.joined {
            joined.push(payload, most);
        }
    }

    pub(crate) fn into_joined(self) -> Option<JoinedBody> {
        self.joined
    }
}

/// The available part of a body, from the last sent block on.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutgoingBody {
    kept: Bytes,
    start: usize,
    complete: bool,
    announced: Option<u32>,
    /// The application was asked for more.
    requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The offset is beyond the body, or the block number is too large.
    BeyondTheEnd,
    Gone,
    /// The application must supply this many bytes, or the end.
    Later(usize),
}

impl OutgoingBody {
    pub(crate) fn whole(payload: Bytes) -> Self {
        let announced = Some(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        Self { kept: payload, start: 0, complete: true, announced, requested: false }
    }

    /// The rest is [supplied](Self::supply) later.
    pub(crate) fn beginning(payload: Bytes, announced: Option<u32>) -> Self {
        Self { kept: payload, start: 0, complete: false, announced, requested: false }
    }

    pub(crate) fn kept(&self) -> &Bytes {
        &self.kept
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.complete && self.start == 0
    }

    pub(crate) const fn announced(&self) -> Option<u32> {
        self.announced
    }

    /// Returns the block at `offset`. Its M bit needs the next byte or the end.
    pub(crate) fn block(&self, offset: usize, size: BlockSize) -> Result<(Bytes, Block), Missing> {
        let before = offset.checked_sub(self.start).ok_or(Missing::Gone)?;
        let there = self.kept.len().saturating_sub(before);
        if !self.complete && there <= size.bytes() {
            return Err(Missing::Later(size.bytes() + 1 - there + before.saturating_sub(self.kept.len())));
        }
        let (range, block) =
            cut(self.start.saturating_add(self.kept.len()), offset, size).ok_or(Missing::BeyondTheEnd)?;
        Ok((self.kept.slice(range.start - self.start..range.end - self.start), block))
    }

    pub(crate) fn forget_before(&mut self, offset: usize) {
        let gone = offset.saturating_sub(self.start).min(self.kept.len());
        self.kept = self.kept.slice(gone..);
        self.start += gone;
    }

    pub(crate) fn supply(&mut self, more: Bytes, last: bool) -> bool {
        if self.complete {
            return false;
        }
        if self.kept.is_empty() {
            self.kept = more;
        } else if !more.is_empty() {
            let mut joined = Vec::with_capacity(self.kept.len() + more.len());
            joined.extend_from_slice(&self.kept);
            joined.extend_from_slice(&more);
            self.kept = joined.into();
        }
        self.complete = last;
        self.requested = false;
        true
    }

    /// Returns the bytes needed for the block at `offset`, once until more is supplied.
    pub(crate) fn wants(&mut self, offset: usize, size: BlockSize) -> Option<usize> {
        match self.block(offset, size) {
            Err(Missing::Later(bytes)) if !self.requested => {
                self.requested = true;
                Some(bytes)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: BlockSize = BlockSize::B16;

    fn block(flow: &OutgoingBody, offset: usize) -> Result<(Vec<u8>, alloc::string::String), Missing> {
        flow.block(offset, SIZE).map(|(bytes, block)| (bytes.to_vec(), alloc::format!("{block}")))
    }

    #[test]
    fn a_block_can_leave_when_the_first_byte_after_it_is_there_or_the_end() {
        let mut flow = OutgoingBody::beginning(Bytes::from(alloc::vec![1; 15]), None);
        assert_eq!((block(&flow, 0), flow.wants(0, SIZE)), (Err(Missing::Later(2)), Some(2)));
        assert_eq!(flow.wants(0, SIZE), None, "it is told once");
        assert!(flow.supply(Bytes::from_static(&[1]), false));
        assert_eq!((block(&flow, 0), flow.wants(0, SIZE)), (Err(Missing::Later(1)), Some(1)));
        assert!(flow.supply(Bytes::from_static(&[2]), false));
        assert_eq!(block(&flow, 0), Ok((alloc::vec![1; 16], "0/1/16".into())));
        assert_eq!(block(&flow, 16), Err(Missing::Later(16)));
        assert!(flow.supply(Bytes::new(), true) && !flow.supply(Bytes::new(), true));
        assert_eq!(block(&flow, 16), Ok((alloc::vec![2], "1/0/16".into())));
        assert_eq!(block(&flow, 32), Err(Missing::BeyondTheEnd));
    }

    #[test]
    fn an_outgoing_body_frees_acknowledged_blocks_and_keeps_the_last_sent() {
        let mut flow = OutgoingBody::beginning(Bytes::from(alloc::vec![7; 40]), None);
        flow.forget_before(16);
        assert_eq!((block(&flow, 0), flow.kept().len()), (Err(Missing::Gone), 24));
        assert_eq!(block(&flow, 16), Ok((alloc::vec![7; 16], "1/1/16".into())));
        flow.supply(Bytes::new(), true);
        assert_eq!(block(&flow, 32), Ok((alloc::vec![7; 8], "2/0/16".into())));
        assert!(!flow.is_whole());
    }

    #[test]
    fn an_empty_body_has_one_empty_block() {
        let flow = OutgoingBody::whole(Bytes::new());
        assert_eq!(block(&flow, 0), Ok((Vec::new(), "0/0/16".into())));
    }
}
