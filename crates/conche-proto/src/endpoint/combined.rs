//! Combined EDHOC and OSCORE requests: message_3 and the first protected request in one message
//! (RFC 9668).
//!
//! ```text
//! in:   option EDHOC ─message_3─> application ─context─> the rest is an ordinary protected request
//! out:  first protected request of a context ─prepend message_3─> queue, retransmission
//! ```
//!
//! Such a request is one message: a duplicate has the same bytes, and gets the same answer. The
//! application runs EDHOC itself.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Endpoint;
use super::receive::Arrival;
use crate::PeerKey;
use crate::codec::{Body, BuildError, Code, Message, OptionNumber, OwnedMessage, Type};
use crate::oscore::{Context, ContextId, EndId, InsertError, kid_of};
use conche_cc::{Controller, Instant};

/// Processes message_3 for the request's `kid`, which is our connection identifier (C_R), and adds
/// the resulting context; `Err`: the response to send instead.
pub type Agree = dyn FnMut(Instant, EndId, &[u8], &mut Add<'_>) -> Result<(), (Code, Body)> + Send + Sync;

/// Adds a context, like [`Endpoint::add_context`].
pub type Add<'a> = dyn FnMut(Context) -> Result<ContextId, InsertError> + 'a;

/// # Key exchange combined with the first request (RFC 9668)
impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Accepts requests with the EDHOC option. The function receives message_3 and a function that
    /// adds a context: [`Context::agreed`], so that the request after message_3 can be processed at
    /// once. Without this call such requests get 4.02.
    pub fn agree_on_keys(&mut self, agree: Box<Agree>) {
        self.protection_mut().agree = Some(agree);
    }

    /// Prepends this message_3 to the next request protected with a context. Until it is answered,
    /// the other end does not have the context, and refuses requests that overtake it.
    pub fn send_message_3(&mut self, context: ContextId, message_3: Vec<u8>) {
        self.protection_mut().before.push((context, message_3));
    }

    /// Returns the additional size of the next request with a context, beyond its protection.
    pub(super) fn bytes_before(&self, context: ContextId) -> usize {
        let protection = self.protected();
        let before = protection.and_then(|protection| protection.before.iter().find(|(of, _)| *of == context));
        // The option has no value; its number may lengthen the header of another option.
        before.map_or(0, |(_, message_3)| 2 + message_3.len())
    }

    /// Returns a protected request with message_3 prepended, if there is one.
    pub(super) fn with_message_3(&mut self, context: ContextId, body: Body) -> Result<Body, BuildError> {
        let Some(protection) = self.protection.as_deref_mut() else { return Ok(body) };
        let Some(at) = protection.before.iter().position(|(of, _)| *of == context) else { return Ok(body) };
        let (_, mut payload) = protection.before.swap_remove(at);
        payload.extend_from_slice(body.payload_slice());
        body.to_builder().option(OptionNumber::EDHOC, &[]).payload(payload).build()
    }

    /// Handles a request with the options OSCORE and EDHOC.
    pub(super) fn receive_combined(&mut self, now: Instant, arrival: Arrival<P>, message: &Message<'_>) {
        match self.agreed(now, message) {
            Ok(rest) => self.receive_protected(now, arrival, &rest.view()),
            Err((code, body)) => {
                self.count_refused();
                // A refused Non-confirmable request is treated as lost, like other protected ones.
                if message.ty() == Type::Confirmable {
                    self.answer_at_once(now, &arrival, message, code, &body);
                }
            }
        }
    }

    /// Adds the context that results from message_3; returns the remaining request.
    fn agreed(&mut self, now: Instant, message: &Message<'_>) -> Result<OwnedMessage, (Code, Body)> {
        let protection = self.protection.as_deref_mut();
        let both = protection.and_then(|protection| Some((protection.agree.as_mut()?, &mut protection.contexts)));
        let (agree, contexts) = both.ok_or((Code::BAD_OPTION, Body::EMPTY))?;
        let malformed = || (Code::BAD_REQUEST, Body::EMPTY);
        let c_r = kid_of(message).ok_or_else(malformed)?;
        let (message_3, rest) = divided(message.payload()).ok_or_else(malformed)?;
        agree(now, c_r, message_3, &mut |context| contexts.insert(context))?;
        self.ask_to_reserve();
        let unexpected = || (Code::INTERNAL_SERVER_ERROR, Body::EMPTY);
        let options = message.options().filter(|option| option.number != OptionNumber::EDHOC);
        let body = Body::builder().options(options).payload(rest.to_vec()).build().map_err(|_| unexpected())?;
        OwnedMessage::encode(message.ty(), message.code(), message.id(), &message.token(), &body).ok_or_else(unexpected)
    }
}

/// Splits a payload into its first item, an encoded byte string, and a non-empty rest.
fn divided(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut decoder = minicbor::Decoder::new(payload);
    decoder.bytes().ok()?;
    payload.split_at_checked(decoder.position()).filter(|(_, rest)| !rest.is_empty())
}
