//! The demonstration resources: something to read, to write, to count and to wait for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conche::server::{Conditions, FromRef, Rejection, Request, Response, Router, State, get, post};
use conche::{Code, ContentFormat};

/// How long `/separate` takes; far beyond the time after which a request is acknowledged without a response.
const SEPARATE_DELAY: Duration = Duration::from_secs(5);

/// What is written must fit the response that it is read with: 1152 bytes less header 4, token 8, ETag 5,
/// Content-Format 3 and payload marker 1.
const LARGEST: usize = 1131;

/// `/test` is read with GET, replaced with PUT and removed with DELETE, POST changes nothing; `/count` counts POSTs;
/// `/separate` answers late; `/a/b` has a path of two segments.
pub fn router() -> Router {
    let test = get(read).put(write).post(touch).delete(remove);
    Router::new()
        .route("/test", test.title("A document").format(ContentFormat::TEXT_PLAIN))
        .route("/count", post(count).get(counted).title("Counts POST requests"))
        .route("/separate", get(separate).title("Answers after 5 s"))
        .route("/a/b", get(async || "a/b").title("Two segments"))
        .max_payload(LARGEST)
        .with_state(Demo::default())
}

/// What the resources share.
#[derive(Clone, Default)]
struct Demo {
    document: Document,
    count: Arc<AtomicU64>,
}

impl FromRef<Demo> for Document {
    fn from_ref(demo: &Demo) -> Self {
        demo.document.clone()
    }
}

async fn read(State(document): State<Document>) -> Option<Response> {
    let document = document.locked();
    let current = document.as_ref()?;
    Some(Response::new(Code::CONTENT).payload(current.format, current.payload.clone()).etag(&current.etag()))
}

async fn touch(State(document): State<Document>, conditions: Conditions) -> Result<(), Rejection> {
    conditions.check(etag(&document.locked()).as_ref().map(<[u8; 4]>::as_slice))
}

async fn write(State(document): State<Document>, conditions: Conditions, request: Request) -> Result<Code, Rejection> {
    let mut document = document.locked();
    conditions.check(etag(&document).as_ref().map(<[u8; 4]>::as_slice))?;
    let format = request.content_format().unwrap_or(ContentFormat::TEXT_PLAIN);
    let new = Representation { format, payload: request.payload().to_vec() };
    Ok(if document.replace(new).is_some() { Code::CHANGED } else { Code::CREATED })
}

async fn remove(State(document): State<Document>, conditions: Conditions) -> Result<Code, Rejection> {
    let mut document = document.locked();
    conditions.check(etag(&document).as_ref().map(<[u8; 4]>::as_slice))?;
    *document = None;
    Ok(Code::DELETED)
}

async fn count(State(demo): State<Demo>) -> String {
    (demo.count.fetch_add(1, Ordering::Relaxed) + 1).to_string()
}

async fn counted(State(demo): State<Demo>) -> String {
    demo.count.load(Ordering::Relaxed).to_string()
}

async fn separate() -> &'static str {
    tokio::time::sleep(SEPARATE_DELAY).await;
    "separate"
}

/// A representation that clients may replace or remove.
#[derive(Clone)]
struct Document(Arc<Mutex<Option<Representation>>>);

struct Representation {
    format: ContentFormat,
    payload: Vec<u8>,
}

impl Representation {
    fn etag(&self) -> [u8; 4] {
        let mut hasher = DefaultHasher::new();
        (self.format, &self.payload).hash(&mut hasher);
        let [a, b, c, d, ..] = hasher.finish().to_be_bytes();
        [a, b, c, d]
    }
}

impl Default for Document {
    fn default() -> Self {
        let hello = Representation { format: ContentFormat::TEXT_PLAIN, payload: b"hello".to_vec() };
        Self(Arc::new(Mutex::new(Some(hello))))
    }
}

impl Document {
    fn locked(&self) -> MutexGuard<'_, Option<Representation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn etag(document: &Option<Representation>) -> Option<[u8; 4]> {
    document.as_ref().map(Representation::etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche::OptionNumber;
    use conche::codec::Body;
    use conche::server::Route;

    /// The code of the response to a request to /test, with an option.
    async fn asked(service: &Route, method: Code, option: OptionNumber, value: &[u8]) -> Code {
        let body = Body::builder().path("/test").option(option, value).build().expect("legal options");
        let peer = "192.0.2.1:5683".parse().expect("an address");
        service.respond(Request::from_body(peer, method, &body).expect("a method")).await.code()
    }

    // RFC 7252 §5.10.8 (Q203)
    #[tokio::test]
    async fn conditions_hold_or_not_for_each_method() {
        const IF_MATCH: OptionNumber = OptionNumber::IF_MATCH;
        const IF_NONE_MATCH: OptionNumber = OptionNumber::IF_NONE_MATCH;
        let service = router().into_service().expect("the routes make sense");
        for (method, option, value, code) in [
            (Code::GET, IF_MATCH, &b"\x01"[..], Code::PRECONDITION_FAILED),
            (Code::GET, IF_MATCH, b"", Code::CONTENT),
            (Code::GET, IF_NONE_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::POST, IF_MATCH, b"\x01", Code::PRECONDITION_FAILED),
            (Code::POST, IF_MATCH, b"", Code::CHANGED),
            (Code::POST, IF_NONE_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::PUT, IF_NONE_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::DELETE, IF_MATCH, b"\x01", Code::PRECONDITION_FAILED),
            (Code::DELETE, IF_MATCH, b"", Code::DELETED),
            (Code::GET, IF_NONE_MATCH, b"", Code::NOT_FOUND),
            (Code::GET, IF_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::PUT, IF_NONE_MATCH, b"", Code::CREATED),
        ] {
            assert_eq!(asked(&service, method, option, value).await, code, "{method:?} with {option} {value:?}");
        }
    }
}
