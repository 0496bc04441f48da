//! A resource: its methods, and what `/.well-known/core` says of it.

use std::fmt;

use conche_proto::codec::{Code, ContentFormat};

use super::handler::{AnyHandler, erase};
use super::{Handler, link::Attributes};

/// What a path leads to.
///
/// ```
/// use conche::ContentFormat;
/// use conche::server::{Router, get};
///
/// async fn read() -> &'static str { "21.5" }
/// async fn calibrate() {}
///
/// let router = Router::new().route(
///     "/temperature",
///     get(read).post(calibrate).title("Outdoor temperature").resource_type("temperature-c").format(ContentFormat::TEXT_PLAIN),
/// );
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Resource {
    methods: Vec<(Code, AnyHandler)>,
    attributes: Attributes,
    hidden: bool,
    conditional: bool,
}

macro_rules! methods {
    ($($name:ident $code:ident $rfc:literal)*) => {
        impl Resource {
            $(
                #[doc = concat!("Answers ", stringify!($code), " (", $rfc, ") with `handler`.")]
                pub fn $name<Arguments>(self, handler: impl Handler<Arguments>) -> Self {
                    self.on(Code::$code, handler)
                }
            )*
        }

        $(
            #[doc = concat!("A resource that answers ", stringify!($code), " (", $rfc, ") with `handler`.")]
            pub fn $name<Arguments>(handler: impl Handler<Arguments>) -> Resource {
                Resource::new().$name(handler)
            }
        )*
    };
}

methods! {
    get GET "RFC 7252 §5.8.1"
    post POST "RFC 7252 §5.8.2"
    put PUT "RFC 7252 §5.8.3"
    delete DELETE "RFC 7252 §5.8.4"
    fetch FETCH "RFC 8132 §2"
    patch PATCH "RFC 8132 §3"
    ipatch IPATCH "RFC 8132 §3"
}

impl Resource {
    /// A resource that answers every method with 4.05.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers this method with `handler`, instead of the one that it had.
    pub fn on<Arguments>(mut self, method: Code, handler: impl Handler<Arguments>) -> Self {
        self.methods.retain(|(other, _)| *other != method);
        self.methods.push((method, erase(handler)));
        self
    }

    /// `title`: what humans call it.
    pub fn title(self, title: &str) -> Self {
        self.attribute("title", title)
    }

    /// Adds to `rt`: what it is, semantically (RFC 6690 §3.1).
    pub fn resource_type(self, kind: &str) -> Self {
        self.attribute("rt", kind)
    }

    /// Adds to `if`: how to interact with it (RFC 6690 §3.2).
    pub fn interface(self, description: &str) -> Self {
        self.attribute("if", description)
    }

    /// Adds to `ct`: a Content-Format in which it is available (RFC 7252 §7.2.1).
    pub fn format(self, format: ContentFormat) -> Self {
        self.attribute("ct", &format.0.to_string())
    }

    /// `sz`: about how many bytes its representation has (RFC 6690 §3.3).
    pub fn size(self, bytes: u32) -> Self {
        self.attribute("sz", &bytes.to_string())
    }

    /// Adds any link attribute. Values of one that is given more than once stand in one list, separated by spaces.
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.add(name, value);
        self
    }

    /// Leaves it out of `/.well-known/core`.
    pub fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// Its handlers look at If-Match and If-None-Match, as with [`Conditions`](super::Conditions). For other resources a
    /// conditional request is answered with 4.02, as a critical option that is not understood (RFC 7252 §5.4.1).
    pub fn conditional(self) -> Self {
        Self { conditional: true, ..self }
    }

    pub(super) fn handler(&self, method: Code) -> Option<&AnyHandler> {
        self.methods.iter().find(|(other, _)| *other == method).map(|(_, handler)| handler)
    }

    pub(super) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub(super) fn is_listed(&self) -> bool {
        !self.hidden
    }

    pub(super) fn is_conditional(&self) -> bool {
        self.conditional
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods: Vec<Code> = self.methods.iter().map(|(method, _)| *method).collect();
        f.debug_struct("Resource")
            .field("methods", &methods)
            .field("attributes", &self.attributes)
            .field("hidden", &self.hidden)
            .field("conditional", &self.conditional)
            .finish()
    }
}
