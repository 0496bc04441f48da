//! [`Resource`], and the [`Link`] that lists it in `/.well-known/core` (RFC 6690 §4).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use conche_proto::codec::link_format::{Filter, LinkWriteError, LinkWriter, Links};
use conche_proto::codec::{Code, ContentFormat, encode_path};
use tower_layer::Layer;

use super::route::ErasedHandler;
use super::{RequestService, Route, RouteError};
use crate::service::Notifier;
use crate::service::handler::Handler;

/// Handlers by method.
///
/// ```
/// use conche::ContentFormat;
/// use conche::server::{Router, get};
///
/// async fn read() -> &'static str { "21.5" }
/// async fn calibrate() {}
///
/// let router: Router = Router::new().route(
///     "/temperature",
///     get(read).post(calibrate).title("Outdoor temperature").resource_type("temperature-c").format(ContentFormat::TEXT_PLAIN),
/// );
/// ```
///
/// `S` is the state that its handlers lack; see [`Router::with_state`](super::Router::with_state).
#[must_use]
pub struct Resource<S = ()> {
    methods: Vec<(Code, ErasedHandler<S>)>,
    /// Layered 4.05 response to other methods.
    others: Option<ErasedHandler<S>>,
    attributes: Attributes,
    hidden: bool,
    notifier: Option<Notifier>,
    /// A method that got a second handler.
    doubled: Option<Code>,
}

macro_rules! methods {
    ($($name:ident $code:ident $rfc:literal)*) => {
        impl<S: Send + Sync + 'static> Resource<S> {
            $(
                #[doc = concat!("Answers ", stringify!($code), " (", $rfc, ") with `handler`.")]
                pub fn $name<Arguments>(self, handler: impl Handler<Arguments, S>) -> Self {
                    self.on(Code::$code, handler)
                }
            )*
        }

        $(
            #[doc = concat!("A resource that answers ", stringify!($code), " (", $rfc, ") with `handler`.")]
            pub fn $name<Arguments, S: Send + Sync + 'static>(handler: impl Handler<Arguments, S>) -> Resource<S> {
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

impl<S: Send + Sync + 'static> Resource<S> {
    /// Answers this method with `handler`. A second handler for a method keeps the server from
    /// starting.
    pub fn on<Arguments>(mut self, method: Code, handler: impl Handler<Arguments, S>) -> Self {
        if self.handler(method).is_some() {
            self.doubled.get_or_insert(method);
        }
        self.methods.push((method, ErasedHandler::new(handler)));
        self
    }

    /// Wraps all handlers added so far, and the 4.05, in a layer, as
    /// [`Router::layer`](super::Router::layer) does.
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Route, Service: RequestService> + Clone + Send + Sync + 'static,
    {
        let methods =
            self.methods.into_iter().map(|(method, handler)| (method, handler.layer(layer.clone()))).collect();
        let others = self.others.unwrap_or_else(|| ErasedHandler::always(Code::METHOD_NOT_ALLOWED));
        Self { methods, others: Some(others.layer(layer)), ..self }
    }

    /// Provides the state of its handlers.
    pub fn with_state<S2>(self, state: S) -> Resource<S2> {
        self.with_shared(&Arc::new(state))
    }

    pub(super) fn with_shared<S2>(self, state: &Arc<S>) -> Resource<S2> {
        let Self { methods, others, attributes, hidden, notifier, doubled } = self;
        let methods = methods.into_iter().map(|(method, handler)| (method, handler.with_state(state))).collect();
        let others = others.map(|handler| handler.with_state(state));
        Resource { methods, others, attributes, hidden, notifier, doubled }
    }
}

impl<S> Resource<S> {
    /// Returns a resource that answers every method with 4.05.
    pub fn new() -> Self {
        Self {
            methods: Vec::new(),
            others: None,
            attributes: Attributes::default(),
            hidden: false,
            notifier: None,
            doubled: None,
        }
    }

    /// Sets `title`: a name for humans.
    pub fn title(self, title: &str) -> Self {
        self.attribute("title", title)
    }

    /// Adds to `rt`: the resource type (RFC 6690 §3.1).
    pub fn resource_type(self, kind: &str) -> Self {
        self.attribute("rt", kind)
    }

    /// Adds to `if`: the interface description (RFC 6690 §3.2).
    pub fn interface(self, description: &str) -> Self {
        self.attribute("if", description)
    }

    /// Adds to `ct`: a Content-Format (RFC 7252 §7.2.1).
    pub fn format(self, format: ContentFormat) -> Self {
        self.attribute("ct", &format.0.to_string())
    }

    /// Sets `sz`: the approximate size in bytes (RFC 6690 §3.3).
    pub fn size(self, bytes: u32) -> Self {
        self.attribute("sz", &bytes.to_string())
    }

    /// Adds a link attribute. Repeated ones are joined by spaces. A name that is not a `parmname`
    /// (RFC 6690 §2) keeps the server from starting.
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.add(name, value);
        self
    }

    /// Makes the resource observable with GET and FETCH (RFC 7641); this notifier reports changes.
    /// Sets `obs` (§6).
    pub fn observed_by(self, notifier: &Notifier) -> Self {
        let listed = if self.notifier.is_some() { self } else { self.attribute("obs", "") };
        Self { notifier: Some(notifier.clone()), ..listed }
    }

    pub(super) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.as_ref()
    }

    /// Hides the resource from `/.well-known/core`.
    pub fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    pub(super) fn handler(&self, method: Code) -> Option<&ErasedHandler<S>> {
        self.methods.iter().find(|(other, _)| *other == method).map(|(_, handler)| handler)
    }

    pub(super) fn handlers(&self) -> impl Iterator<Item = &ErasedHandler<S>> {
        self.methods.iter().map(|(_, handler)| handler)
    }

    pub(super) fn others(&self) -> Option<&ErasedHandler<S>> {
        self.others.as_ref()
    }

    pub(super) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub(super) fn is_listed(&self) -> bool {
        !self.hidden
    }

    pub(super) fn check(&self, path: &str, captures: usize) -> Result<(), RouteError> {
        if let Some(method) = self.doubled {
            return Err(RouteError::Handlers { path: path.to_owned(), method });
        }
        let misled = self.methods.iter().find_map(|(method, handler)| {
            let wanted = handler.needs().wanted_captures().filter(|wanted| *wanted != captures)?;
            Some(RouteError::captures(Some(*method), path, wanted, captures))
        });
        misled.map_or(Ok(()), Err)
    }
}

impl<S> Default for Resource<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for Resource<S> {
    fn clone(&self) -> Self {
        let Self { methods, others, attributes, hidden, notifier, doubled } = self;
        let (methods, others, attributes) = (methods.clone(), others.clone(), attributes.clone());
        Self { methods, others, attributes, hidden: *hidden, notifier: notifier.clone(), doubled: *doubled }
    }
}

impl<S> fmt::Debug for Resource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods: Vec<Code> = self.methods.iter().map(|(method, _)| *method).collect();
        f.debug_struct("Resource")
            .field("methods", &methods)
            .field("attributes", &self.attributes)
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link(String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<(String, String)>);

impl Attributes {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, list)) => {
                list.push(' ');
                list.push_str(value);
            }
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }
}

impl Link {
    pub(super) fn new<'a>(
        segments: impl IntoIterator<Item = &'a str>,
        attributes: &Attributes,
    ) -> Result<Self, LinkWriteError> {
        let target = encode_path(segments.into_iter().map(str::as_bytes));
        let mut text = String::new();
        let mut links = LinkWriter::new(&mut text);
        links.link(&target)?;
        attributes.0.iter().try_for_each(|(name, value)| links.attribute(name, value).map(drop))?;
        Ok(Self(text))
    }

    fn is_selected_by(&self, filters: &[Filter<'_>]) -> bool {
        let link = Links::read(&self.0).find_map(Result::ok);
        link.is_some_and(|link| filters.iter().all(|filter| filter.selects(&link)))
    }
}

pub(super) fn document<'a>(links: impl Iterator<Item = &'a Link>, query: impl Iterator<Item = Cow<'a, str>>) -> String {
    let query: Vec<_> = query.collect();
    let filters: Vec<_> = query.iter().map(|argument| Filter::new(argument)).collect();
    let wanted: Vec<_> = links.filter(|link| link.is_selected_by(&filters)).map(|link| link.0.as_str()).collect();
    wanted.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(segments: &[&str], pairs: &[(&str, &str)]) -> Link {
        let mut attributes = Attributes::default();
        pairs.iter().for_each(|(name, value)| attributes.add(name, value));
        Link::new(segments.iter().copied(), &attributes).expect("a legal link")
    }

    /// RFC 6690 §5, local links only.
    fn links() -> Vec<Link> {
        vec![
            link(&["sensors"], &[("ct", "40"), ("title", "Sensor Index")]),
            link(&["sensors", "temp"], &[("rt", "temperature-c"), ("if", "sensor")]),
            link(&["sensors", "light"], &[("rt", "light-lux"), ("rt", "core.sen-light"), ("if", "sensor")]),
        ]
    }

    fn found(query: &str) -> String {
        document(links().iter(), query.split('&').filter(|argument| !argument.is_empty()).map(Cow::from))
    }

    #[test]
    fn links_are_written_as_in_rfc_6690_section_5() {
        assert_eq!(
            found(""),
            "</sensors>;ct=40;title=\"Sensor Index\",\
             </sensors/temp>;rt=\"temperature-c\";if=\"sensor\",\
             </sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\""
        );
    }

    #[test]
    fn a_query_selects_links_that_match_all_its_arguments() {
        let light = "</sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\"";
        let temperature = "</sensors/temp>;rt=\"temperature-c\";if=\"sensor\"";
        assert_eq!(found("if=sensor"), format!("{temperature},{light}"));
        assert_eq!(found("if=sensor&rt=t*"), temperature);
        assert_eq!(found("href=/sensors/*&rt=core.*"), light);
        assert_eq!(found("nope=1"), "");
    }

    #[test]
    fn link_delimiters_are_escaped_or_refused() {
        let written = link(&["a/b>", "ü"], &[("title", r#"a"b\c"#), ("obs", "")]);
        assert_eq!(written.0, r#"</a%2Fb%3E/%C3%BC>;title="a\"b\\c";obs"#);
        assert_eq!(link(&[], &[]).0, "</>");
        let mut attributes = Attributes::default();
        attributes.add("r;t", "x");
        assert_eq!(Link::new(["a"], &attributes), Err(LinkWriteError::Name));
    }
}
