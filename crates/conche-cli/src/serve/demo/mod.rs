//! Demonstration resources: those of the ETSI plugtest descriptions, and a few more.
//!
//! | resource | what it does | test cases |
//! |---|---|---|
//! | `/test` | GET, PUT, DELETE; POST returns a location without creating it | CORE 01-08, 18 |
//! | `/separate` | responds after 5 s | CORE 09, 11, 16, 17 |
//! | `/seg1/seg2/seg3` | has a path of three segments | CORE 13 |
//! | `/query` | returns the arguments of its query | CORE 14 |
//! | `/location-query` | POST returns a location with a query | CORE 19 |
//! | `/multi-format` | text, XML, JSON or CBOR, by Accept | CORE 20 |
//! | `/validate` | has an ETag and conditional PUT | CORE 21, 22 |
//! | `/create1` to `/create3` | do not exist until a PUT | CORE 23 |
//! | `/link1` to `/link3` | have types and interfaces for discovery | LINK 02-08 |
//! | `/path` | links to the resources below it | LINK 09 |
//! | `/large`, `/large-update`, `/large-create`, `/large-post` | exceed a message | BLOCK 01-06 |
//! | `/obs` and others | are observable, see `observed` | OBS |
//! | `/count` | counts POST requests | |
//! | `/a/b` | has a path of two segments | |
//! | `/json` | returns JSON | |
//! | `/oscore` | answers authenticated clients: OSCORE, EDHOC or DTLS | |

mod large;
mod observed;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conche::security::Identity;
use conche::server::{Conditions, Query, Rejection, Request, Resource, Response, Router, State, get, post};
use conche::{Code, ContentFormat, OptionNumber};

/// Far beyond the time of an empty acknowledgement.
const SEPARATE_DELAY: Duration = Duration::from_secs(5);

/// application/xml
const XML: ContentFormat = ContentFormat(41);

const BELOW_PATH: [&str; 3] = ["/path/sub1", "/path/sub2", "/path/sub3"];

/// Clients' writes stay in memory.
pub const LARGEST: usize = 64 << 10;

/// Must be called within a runtime.
pub fn router() -> Router {
    let test = editable().post(post_test).with_state(Document::of(Some("hello")));
    let test = test.title("A document").format(ContentFormat::TEXT_PLAIN);
    let mut router = Router::new()
        .route("/test", test)
        .route("/separate", get(separate).title("Answers after 5 s"))
        .route("/seg1/seg2/seg3", get(async || "three segments").size(14))
        .route("/query", get(query))
        .route("/location-query", post(located_by_query))
        .route("/multi-format", multiple_formats())
        .route("/validate", document(Some("validate")))
        .route("/link1", get(async || "link1").resource_type("Type1").interface("If1"))
        .route("/link2", get(async || "link2").resource_type("Type2").interface("If2"))
        .route("/link3", get(async || "link3").resource_type("Type1").resource_type("Type2").interface("foo"))
        .route("/path", get(path).format(ContentFormat::LINK_FORMAT))
        .route("/json", get(json).title("A JSON object").format(ContentFormat::JSON))
        .route("/oscore", get(protected).title("Only for authenticated clients"))
        .route("/a/b", get(async || "a/b").title("Two segments"));
    for created in ["/create1", "/create2", "/create3"] {
        router = router.route(created, document(None));
    }
    for below in BELOW_PATH {
        router = router.route(below, get(move || async move { below }).hidden());
    }
    let count = post(count).get(counted).title("Counts POST requests").with_state(Arc::<AtomicU64>::default());
    router.route("/count", count).merge(large::router()).merge(observed::router())
}

/// Has no effect, but returns a location (TD_COAP_CORE_18).
async fn post_test(State(document): State<Document>, conditions: Conditions) -> Result<Response, Rejection> {
    conditions.check(etag(&document.locked()).as_ref().map(<[u8; 4]>::as_slice))?;
    Ok(Response::new(Code::CREATED).location("/location1/location2/location3"))
}

async fn separate() -> &'static str {
    tokio::time::sleep(SEPARATE_DELAY).await;
    "separate"
}

async fn query(query: Query) -> String {
    let arguments = query.0.iter().map(|(key, value)| format!("{key}={value}\n"));
    arguments.collect()
}

async fn located_by_query() -> Response {
    let response = Response::new(Code::CREATED);
    ["first=1", "second=2"]
        .into_iter()
        .fold(response, |response, argument| response.option(OptionNumber::LOCATION_QUERY, argument.as_bytes()))
}

/// Californium's plugtest checker reads all four formats.
fn multiple_formats() -> Resource {
    let formats = [ContentFormat::TEXT_PLAIN, XML, ContentFormat::JSON, ContentFormat::CBOR];
    formats.into_iter().fold(get(multi_format), Resource::format)
}

async fn multi_format(request: Request) -> Response {
    let response = Response::new(Code::CONTENT);
    match request.accept() {
        Some(XML) => response.payload(XML, "<?xml version=\"1.0\"?><format>xml</format>"),
        Some(ContentFormat::JSON) => response.payload(ContentFormat::JSON, r#"{"format":"json"}"#),
        Some(ContentFormat::CBOR) => response.payload(ContentFormat::CBOR, b"\xa1\x66format\x64cbor".to_vec()),
        // The router answers 4.06 to another Accept.
        _ => response.text("format: text"),
    }
}

async fn json() -> Response {
    let object = r#"{"sensor":"demo","temperature":21.5,"unit":"Cel","history":[21.3,21.4,21.5]}"#;
    Response::new(Code::CONTENT).payload(ContentFormat::JSON, object)
}

async fn protected(_: Identity) -> &'static str {
    "protected"
}

async fn path() -> Response {
    let links = BELOW_PATH.map(|below| format!("<{below}>")).join(",");
    Response::new(Code::CONTENT).payload(ContentFormat::LINK_FORMAT, links)
}

async fn count(State(count): State<Arc<AtomicU64>>) -> String {
    (count.fetch_add(1, Ordering::Relaxed) + 1).to_string()
}

async fn counted(State(count): State<Arc<AtomicU64>>) -> String {
    count.load(Ordering::Relaxed).to_string()
}

fn document(content: Option<&'static str>) -> Resource {
    editable().with_state(Document::of(content))
}

fn editable() -> Resource<Document> {
    get(read).put(write).delete(remove)
}

async fn read(State(document): State<Document>) -> Option<Response> {
    let document = document.locked();
    let current = document.as_ref()?;
    Some(current.response())
}

async fn write(State(document): State<Document>, conditions: Conditions, request: Request) -> Result<Code, Rejection> {
    let mut document = document.locked();
    conditions.check(etag(&document).as_ref().map(<[u8; 4]>::as_slice))?;
    Ok(if document.replace(Representation::of(&request)).is_some() { Code::CHANGED } else { Code::CREATED })
}

async fn remove(State(document): State<Document>, conditions: Conditions) -> Result<Code, Rejection> {
    let mut document = document.locked();
    conditions.check(etag(&document).as_ref().map(<[u8; 4]>::as_slice))?;
    *document = None;
    Ok(Code::DELETED)
}

#[derive(Clone)]
struct Document(Arc<Mutex<Option<Representation>>>);

struct Representation {
    format: ContentFormat,
    payload: Vec<u8>,
}

impl Representation {
    fn of(request: &Request) -> Self {
        let format = request.content_format().unwrap_or(ContentFormat::TEXT_PLAIN);
        Self { format, payload: request.payload().to_vec() }
    }

    fn response(&self) -> Response {
        Response::new(Code::CONTENT).payload(self.format, self.payload.clone()).etag(&self.etag())
    }

    fn etag(&self) -> [u8; 4] {
        let mut hasher = DefaultHasher::new();
        (self.format, &self.payload).hash(&mut hasher);
        let [a, b, c, d, ..] = hasher.finish().to_be_bytes();
        [a, b, c, d]
    }
}

impl Document {
    fn of(content: Option<&str>) -> Self {
        let content = content.map(|text| Representation { format: ContentFormat::TEXT_PLAIN, payload: text.into() });
        Self(Arc::new(Mutex::new(content)))
    }

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
    use conche::codec::Body;
    use conche::server::Route;

    async fn response(service: &Route, method: Code, path: &str, option: OptionNumber, value: &[u8]) -> Response {
        let body = Body::builder().path(path).option(option, value).build().expect("legal options");
        let peer = "192.0.2.1:5683".parse().expect("an address");
        service.respond(Request::from_body(peer, method, &body).expect("a method")).await
    }

    fn service() -> Route {
        router().into_service().expect("the routes make sense")
    }

    // RFC 7252 §5.10.8 (Q203)
    #[tokio::test]
    async fn conditions_hold_or_not_for_each_method() {
        const IF_MATCH: OptionNumber = OptionNumber::IF_MATCH;
        const IF_NONE_MATCH: OptionNumber = OptionNumber::IF_NONE_MATCH;
        let service = service();
        for (method, option, value, code) in [
            (Code::GET, IF_MATCH, &b"\x01"[..], Code::PRECONDITION_FAILED),
            (Code::GET, IF_MATCH, b"", Code::CONTENT),
            (Code::GET, IF_NONE_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::POST, IF_MATCH, b"\x01", Code::PRECONDITION_FAILED),
            (Code::POST, IF_MATCH, b"", Code::CREATED),
            (Code::POST, IF_NONE_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::PUT, IF_NONE_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::DELETE, IF_MATCH, b"\x01", Code::PRECONDITION_FAILED),
            (Code::DELETE, IF_MATCH, b"", Code::DELETED),
            (Code::GET, IF_NONE_MATCH, b"", Code::NOT_FOUND),
            (Code::GET, IF_MATCH, b"", Code::PRECONDITION_FAILED),
            (Code::PUT, IF_NONE_MATCH, b"", Code::CREATED),
        ] {
            let answer = response(&service, method, "/test", option, value).await.code();
            assert_eq!(answer, code, "{method:?} with {option} {value:?}");
        }
    }

    // TD_COAP_CORE_20
    #[tokio::test]
    async fn a_format_is_chosen_by_accept_and_others_are_not_acceptable() {
        let service = service();
        for (accept, code, format) in [
            (&b""[..], Code::CONTENT, Some(ContentFormat::TEXT_PLAIN)),
            (&[41], Code::CONTENT, Some(XML)),
            (&[50], Code::CONTENT, Some(ContentFormat::JSON)),
            (&[60], Code::CONTENT, Some(ContentFormat::CBOR)),
            (&[42], Code::NOT_ACCEPTABLE, None),
        ] {
            let answer = response(&service, Code::GET, "/multi-format", OptionNumber::ACCEPT, accept).await;
            assert_eq!((answer.code(), answer.content_format()), (code, format), "{accept:?}");
        }
    }

    #[tokio::test]
    async fn json_is_for_all_and_the_protected_resource_for_authenticated_clients() {
        let service = service();
        let json = response(&service, Code::GET, "/json", OptionNumber::URI_QUERY, b"").await;
        assert_eq!((json.code(), json.content_format()), (Code::CONTENT, Some(ContentFormat::JSON)));
        serde_json::from_slice::<serde_json::Value>(json.payload_bytes()).expect("it is JSON");
        let refused = response(&service, Code::GET, "/oscore", OptionNumber::URI_QUERY, b"").await;
        assert_eq!(refused.code(), Code::UNAUTHORIZED);
    }

    // TD_COAP_LINK_01 to 09
    #[tokio::test]
    async fn the_list_of_resources_can_be_filtered() {
        let service = service();
        let links = async |query: &str| {
            let query = query.as_bytes();
            let answer = response(&service, Code::GET, "/.well-known/core", OptionNumber::URI_QUERY, query).await;
            String::from_utf8(answer.payload_bytes().to_vec()).expect("text")
        };
        for (query, targets) in [
            ("rt=Type1", &["link1", "link3"][..]),
            ("rt=Type2", &["link2", "link3"]),
            ("if=If*", &["link1", "link2"]),
            ("sz=*", &["seg1/seg2/seg3", "large"]),
            ("href=/link1", &["link1"]),
            ("href=/link*", &["link1", "link2", "link3"]),
            ("ct=40", &["path"]),
        ] {
            let links = links(query).await;
            let found: Vec<_> = links.split(',').filter_map(|link| link.strip_prefix("</")?.split_once('>')).collect();
            assert_eq!(found.iter().map(|(target, _)| *target).collect::<Vec<_>>(), targets, "{query}: {links}");
        }
    }
}
