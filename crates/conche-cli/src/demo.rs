//! The demonstration resources: something to read, to write, to count and to wait for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conche::server::{Conditions, Request, Response, Router, get, post};
use conche::{Code, ContentFormat, OptionNumber};

/// How long `/separate` takes; far beyond the time after which a request is acknowledged without a response.
const SEPARATE_DELAY: Duration = Duration::from_secs(5);

/// `/test` is read with GET, replaced with PUT and removed with DELETE, POST changes nothing; `/count` counts POSTs;
/// `/separate` answers late; `/a/b` has a path of two segments.
pub fn router() -> Router {
    let test = Document::default();
    let (read, write, remove) = (test.clone(), test.clone(), test);
    let count = Arc::new(AtomicU64::new(0));
    let (counting, counted) = (Arc::clone(&count), count);
    Router::new()
        .route(
            "/test",
            get(move |request: Request| std::future::ready(read.get(&request)))
                .put(move |request: Request, conditions: Conditions| {
                    std::future::ready(write.put(&request, &conditions))
                })
                .post(async || ())
                .delete(move |conditions: Conditions| std::future::ready(remove.delete(&conditions)))
                .conditional()
                .title("A document")
                .format(ContentFormat::TEXT_PLAIN),
        )
        .route(
            "/count",
            post(move || std::future::ready((counting.fetch_add(1, Ordering::Relaxed) + 1).to_string()))
                .get(move || std::future::ready(counted.load(Ordering::Relaxed).to_string()))
                .title("Counts POST requests"),
        )
        .route(
            "/separate",
            get(async || {
                tokio::time::sleep(SEPARATE_DELAY).await;
                "separate"
            })
            .title("Answers after 5 s"),
        )
        .route("/a/b", get(async || "a/b").title("Two segments"))
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
    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Representation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, request: &Request) -> Response {
        match &*self.locked() {
            None => Response::new(Code::NOT_FOUND),
            Some(current) => {
                let etag = current.etag();
                if request.message().values(OptionNumber::ETAG).any(|known| known == etag) {
                    return Response::new(Code::VALID).etag(&etag);
                }
                Response::new(Code::CONTENT).payload(current.format, current.payload.clone()).etag(&etag)
            }
        }
    }

    fn put(&self, request: &Request, conditions: &Conditions) -> Result<Response, Response> {
        let mut document = self.locked();
        conditions.check(document.as_ref().map(Representation::etag).as_ref().map(<[u8; 4]>::as_slice))?;
        let format = request.content_format().unwrap_or(ContentFormat::TEXT_PLAIN);
        let new = Representation { format, payload: request.payload().to_vec() };
        let code = if document.replace(new).is_some() { Code::CHANGED } else { Code::CREATED };
        Ok(Response::new(code))
    }

    fn delete(&self, conditions: &Conditions) -> Result<Response, Response> {
        let mut document = self.locked();
        conditions.check(document.as_ref().map(Representation::etag).as_ref().map(<[u8; 4]>::as_slice))?;
        *document = None;
        Ok(Response::new(Code::DELETED))
    }
}
