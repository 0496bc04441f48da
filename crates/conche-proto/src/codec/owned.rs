//! [`OwnedMessage`]: a received message that outlives its datagram.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::decode::Layout;
use super::{Code, DecodeError, Header, Message, OptionNumber, Token, Values};

/// A well-formed message and the datagram that it is in, as one allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedMessage {
    bytes: Box<[u8]>,
    layout: Layout,
}

impl OwnedMessage {
    /// Checks a datagram and keeps it.
    ///
    /// # Errors
    ///
    /// As [`Message::decode`].
    pub fn decode(datagram: impl Into<Box<[u8]>>) -> Result<Self, DecodeError> {
        let bytes = datagram.into();
        let layout = Message::decode(&bytes)?.layout;
        Ok(Self { bytes, layout })
    }

    /// The message, borrowed; everything that is not forwarded below is asked there.
    #[must_use]
    pub fn view(&self) -> Message<'_> {
        Message { bytes: &self.bytes, layout: self.layout }
    }

    /// As [`Message::header`].
    #[must_use]
    pub fn header(&self) -> Header {
        self.view().header()
    }

    /// As [`Message::code`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.view().code()
    }

    /// As [`Message::token`].
    #[must_use]
    pub fn token(&self) -> Token {
        self.view().token()
    }

    /// As [`Message::option`].
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        self.view().option(number)
    }

    /// As [`Message::uint`].
    #[must_use]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        self.view().uint(number)
    }

    /// As [`Message::values`].
    #[must_use]
    pub fn values(&self, number: OptionNumber) -> Values<'_> {
        self.view().values(number)
    }

    /// As [`Message::payload`].
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.view().payload()
    }

    /// As [`Message::uri_path`].
    #[must_use]
    pub fn uri_path(&self) -> String {
        self.view().uri_path()
    }

    /// As [`Message::uri_queries`].
    pub fn uri_queries(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.view().uri_queries()
    }
}

impl From<Message<'_>> for OwnedMessage {
    fn from(message: Message<'_>) -> Self {
        Self { bytes: message.bytes.into(), layout: message.layout }
    }
}

impl fmt::Display for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view(), f)
    }
}
