//! The operations with security contexts (OSCORE, RFC 8613).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Endpoint;
use crate::PeerKey;
use crate::layers::Agree;
use crate::oscore::{Context, ContextId, EndId, InsertError, Reserve};
use crate::security::Security;
use crate::transport::RequestId;
use conche_cc::Controller;

/// # End-to-end protection (RFC 8613), and key exchange combined with the first request (RFC 9668)
impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Adds a security context. [`Request::security`](crate::Request::security) selects the context
    /// that protects a request. Until the first context is added, the endpoint does not support the
    /// OSCORE option, and refuses it as an unknown critical option.
    ///
    /// [`Event::Reserve`](crate::Event::Reserve) follows. Nothing is protected with the context
    /// until it is answered.
    ///
    /// ```
    /// use conche_proto::cc::AnyController;
    /// use conche_proto::codec::{Body, Code};
    /// use conche_proto::oscore::{Context, Credentials, EndId, Start};
    /// use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Output, Request};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (now, mut buf) = (Instant::ZERO, [0; 1280]);
    /// let mut end = |own: &[u8], other: &[u8]| -> Result<_, Box<dyn std::error::Error>> {
    ///     let [own, other] = [own, other].map(|id| EndId::new(id).expect("no more than 7 bytes"));
    ///     let credentials = Credentials::new(*b"16 random bytes.", own, other);
    ///     let controller = AnyController::by_name("default")?;
    ///     let mut endpoint = Endpoint::new(EndpointConfig::default(), controller, [1; 32])?;
    ///     let context = endpoint.add_context(Context::derive(&credentials, Start::First)?)?;
    ///     let Output::Event(Event::Reserve(reserve)) = endpoint.poll(now, &mut buf) else {
    ///         panic!()
    ///     };
    ///     // An application stores it here, before it confirms:
    ///     endpoint.reserved(reserve);
    ///     Ok((endpoint, context))
    /// };
    /// let ((mut client, context), (mut server, peer)) = (end(b"c", b"s")?, end(b"s", b"c")?);
    ///
    /// let body = Body::builder().path("/test").build()?;
    /// let request = Request::new(Code::GET, body).protected(context);
    /// client.request(now, "s", request)?;
    /// let Output::Transmit(datagram) = client.poll(now, &mut buf) else { panic!() };
    /// assert!(!buf[..datagram.len].windows(4).any(|bytes| bytes == b"test"));
    ///
    /// server.handle(now, Input::datagram("c", &buf[..datagram.len]))?;
    /// let Output::Event(Event::Request { id, message, .. }) = server.poll(now, &mut buf) else {
    ///     panic!()
    /// };
    /// assert_eq!((message.code(), message.uri_path().as_str()), (Code::GET, "/test"));
    /// assert_eq!(server.security(id), Some(peer));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is already a context with the same recipient ID and ID context, or with the same
    /// sender key and Common IV.
    pub fn add_context(&mut self, context: Context) -> Result<ContextId, InsertError> {
        self.layers.add_context(context)
    }

    /// Returns the context that a pending request was protected with, which identifies the sender.
    #[must_use]
    pub fn security(&self, request: RequestId) -> Option<ContextId> {
        self.server.pending_requests.security(request).context()
    }

    /// Returns the security contexts of the client's exchanges and observations, possibly several
    /// times. Takes linear time.
    pub fn contexts_in_use(&self) -> impl Iterator<Item = ContextId> {
        let exchanges = self.layers.transport.exchanges.securities();
        exchanges.chain(self.client.subscriptions.securities()).filter_map(Security::context)
    }

    /// Removes a security context, so that it can be stored: its [number](Context::next_number) and
    /// [window](Context::window). Observers that use it are removed at the next notification.
    pub fn remove_context(&mut self, id: ContextId) -> Option<Context> {
        self.layers.remove_context(id)
    }

    /// Returns the security context with this recipient ID and ID context.
    #[must_use]
    pub fn find_context(&self, recipient_id: EndId, id_context: Option<&[u8]>) -> Option<ContextId> {
        self.layers.find_context(recipient_id, id_context)
    }

    /// Returns a security context.
    #[must_use]
    pub fn context(&self, id: ContextId) -> Option<&Context> {
        self.layers.context(id)
    }

    /// Confirms that the numbers of an [`Event::Reserve`](crate::Event::Reserve) are stored and
    /// will survive a power failure.
    pub fn reserved(&mut self, reserve: Reserve) {
        self.layers.reserved(reserve);
    }

    /// Reports that the numbers of an [`Event::Reserve`](crate::Event::Reserve) could not be
    /// stored. The context's next use requests them again.
    pub fn not_reserved(&mut self, context: ContextId) {
        self.layers.not_reserved(context);
    }

    /// Returns whether no request can be protected with this context before an
    /// [`Event::Reserve`](crate::Event::Reserve) is answered. If its numbers could not be stored,
    /// the event is repeated.
    pub fn waits_for_numbers(&mut self, context: ContextId) -> bool {
        self.layers.waits_for_numbers(context)
    }

    /// Returns the number of refused messages: replayed, forged, unprotected, or with an unknown
    /// context.
    #[must_use]
    pub fn refused_protection(&self) -> u64 {
        self.layers.refused_protection()
    }

    /// Accepts requests with the EDHOC option. The function receives message_3 and a function that
    /// adds a context: [`Context::agreed`], so that the request after message_3 can be processed at
    /// once. Without this call such requests get 4.02.
    pub fn agree_on_keys(&mut self, agree: Box<Agree>) {
        self.layers.agree_on_keys(agree);
    }

    /// Prepends this message_3 to the next request protected with a context. Until it is answered,
    /// the other end does not have the context, and refuses requests that overtake it.
    pub fn send_message_3(&mut self, context: ContextId, message_3: Vec<u8>) {
        self.layers.send_message_3(context, message_3);
    }
}
