//! Layers: `tower`'s, functions, and a handwritten one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use conche::server::{
    Extension, Next, Notifier, ReplyUri, Request, Response, Router, State, from_fn, from_fn_with_state, get,
    handle_error, post,
};
use conche::{Client, Code, Server};
use tokio::sync::Semaphore;
use tower::limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer};
use tower::timeout::TimeoutLayer;
use tower::util::{MapFutureLayer, MapRequestLayer, MapResponseLayer};
use tower::{BoxError, Layer, Service, ServiceBuilder};

use super::{get_text, read, request, service};

#[tokio::test(start_paused = true)]
async fn the_timeout_of_tower_ends_a_handler_and_its_error_becomes_a_response() {
    // ANCHOR: handle_error
    let late = handle_error(|error: BoxError| (Code::SERVICE_UNAVAILABLE, error.to_string()));
    let layers = ServiceBuilder::new().layer(late).layer(TimeoutLayer::new(Duration::from_secs(5)));
    // ANCHOR_END: handle_error
    let sleep = |seconds| {
        get(move || async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            "done"
        })
    };
    let service = service(Router::new().route("/soon", sleep(4)).route("/late", sleep(6)).layer(layers));
    assert_eq!(get_text(&service, "/soon").await, (Code::CONTENT, "done".into()));
    assert_eq!(get_text(&service, "/late").await, (Code::SERVICE_UNAVAILABLE, "request timed out".into()));
}

#[tokio::test]
async fn a_function_layer_gets_a_clone_of_its_state() {
    async fn admit(State(allowed): State<Code>, request: Request, next: Next) -> Result<Response, Code> {
        if request.method() == allowed { Ok(next.run(request).await) } else { Err(Code::FORBIDDEN) }
    }
    let resource = get(async || "read").post(async || "written");
    let service = service(Router::new().route("/", resource).layer(from_fn_with_state(Code::GET, admit)));
    assert_eq!(get_text(&service, "/").await, (Code::CONTENT, "read".into()));
    assert_eq!(service.respond(request(Code::POST, "/", |body| body)).await.code(), Code::FORBIDDEN);
}

/// Returns the codes that an observer receives through a layer that refuses from the second run on.
async fn observed_through(refusal: Code) -> Vec<Code> {
    let (notifier, runs) = (Notifier::default(), Arc::new(AtomicU32::new(0)));
    let refuse = move |State(runs): State<Arc<AtomicU32>>, request: Request, next: Next| async move {
        if runs.fetch_add(1, Ordering::Relaxed) == 0 { Ok(next.run(request).await) } else { Err(refusal) }
    };
    let layer = from_fn_with_state(runs, refuse);
    let resource = get(async || "state").observed_by(&notifier).layer(layer);
    let server = Server::builder().route("/", resource).bind("127.0.0.1:0").await.expect("it starts");
    let mut observation = Client::new().observe(format!("coap://{}/", server.local_addr()));
    let mut codes = Vec::new();
    for _ in 0..2 {
        codes.push(observation.next().await.expect("an answer").expect("a response").code());
        notifier.notify();
    }
    codes
}

#[tokio::test]
async fn a_layer_that_authorizes_ends_no_observation_and_another_error_does() {
    for refusal in [Code::UNAUTHORIZED, Code::FORBIDDEN] {
        assert_eq!(observed_through(refusal).await, [Code::CONTENT; 2]);
    }
    let broken = Code::INTERNAL_SERVER_ERROR;
    assert_eq!(observed_through(broken).await, [Code::CONTENT, broken]);
}

#[tokio::test]
async fn a_handler_gets_the_uri_at_which_its_sender_can_be_reached() {
    let server = Server::builder().route("/", get(async |ReplyUri(uri): ReplyUri| uri.to_string()));
    let server = server.bind("127.0.0.1:0").await.expect("it starts");
    let node = Server::builder().bind("127.0.0.1:0").await.expect("it starts");
    let response = node.client().get(format!("coap://{}/", server.local_addr())).await.expect("a response");
    assert_eq!(response.text(), Ok(format!("coap://{}", node.local_addr()).as_str()));
    let request =
        |peer: &str| Request::from_body(peer.parse().expect("an address"), Code::GET, &conche::codec::Body::EMPTY);
    let uri = |peer| request(peer).expect("a method").reply_uri().map(|uri| uri.to_string());
    assert_eq!(uri("[fe80::1%2]:61616").as_deref(), Some("coap://[fe80::1%2]:61616"));
    assert_eq!(uri("192.0.2.1:0"), None);
}

#[test]
fn a_peer_keeps_its_zone_and_one_of_ipv4_looks_like_one() {
    for (peer, seen) in [("[fe80::1%2]:5683", "[fe80::1%2]:5683"), ("[::ffff:192.0.2.1]:5683", "192.0.2.1:5683")] {
        let peer = peer.parse().expect("an address");
        let request = Request::from_body(peer, Code::GET, &conche::codec::Body::EMPTY).expect("a method");
        assert_eq!(request.peer().to_string(), seen);
    }
}

async fn most_at_once(layer: impl FnOnce(Router) -> Router) -> usize {
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let wait = {
        let (gate, running) = (Arc::clone(&gate), Arc::clone(&running));
        move || {
            let (gate, running) = (Arc::clone(&gate), Arc::clone(&running));
            async move {
                running.fetch_add(1, Ordering::Relaxed);
                let permit = gate.acquire().await;
                permit.map_err(|_| Code::INTERNAL_SERVER_ERROR)?.forget();
                Ok::<_, Code>(())
            }
        }
    };
    let service = service(layer(Router::new().route("/one", get(wait.clone())).route("/two", get(wait))));
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (service, path) = (service.clone(), ["/one", "/two"][number % 2]);
        requests.spawn(async move { get_text(&service, path).await.0 });
    }
    tokio::task::yield_now().await;
    let most = running.load(Ordering::Relaxed);
    gate.add_permits(8);
    assert!(requests.join_all().await.iter().all(|code| *code == Code::CONTENT));
    most as usize
}

#[tokio::test]
async fn a_limit_of_concurrency_holds_for_each_handler_or_for_all() {
    assert_eq!(most_at_once(|router| router).await, 8);
    assert_eq!(most_at_once(|router| router.layer(ConcurrencyLimitLayer::new(3))).await, 6);
    assert_eq!(most_at_once(|router| router.layer(GlobalConcurrencyLimitLayer::new(3))).await, 3);
}

#[tokio::test]
async fn a_limit_that_is_put_around_handlers_before_their_state_holds_too() {
    #[derive(Clone)]
    struct Gate(Arc<Semaphore>, Arc<AtomicU32>);

    let wait = async |State(Gate(gate, running)): State<Gate>| {
        running.fetch_add(1, Ordering::Relaxed);
        if gate.acquire().await.is_ok() { "through" } else { "closed" }
    };
    let gate = Gate(Arc::new(Semaphore::new(0)), Arc::default());
    let router = Router::new().route("/", get(wait)).layer(ConcurrencyLimitLayer::new(1)).with_state(gate.clone());
    let service = service(router);
    let waiting = [0, 1].map(|_| {
        let service = service.clone();
        tokio::spawn(async move { get_text(&service, "/").await.1 })
    });
    tokio::task::yield_now().await;
    assert_eq!(gate.1.load(Ordering::Relaxed), 1, "the other one waits for it");
    gate.0.close();
    for response in waiting {
        assert_eq!(response.await.expect("no panic"), "closed");
    }
}

#[tokio::test]
async fn mapping_layers_see_all_requests_and_responses_from_inside_out() {
    let mark = |mark: &'static str| {
        MapResponseLayer::new(move |response: Response| {
            let (_, text) = read(response.clone());
            response.text(text + mark)
        })
    };
    let attach = MapRequestLayer::new(|mut request: Request| {
        request.extend("attached");
        request
    });
    let router = Router::new()
        .route("/", get(async |Extension(what): Extension<&'static str>| what).layer(mark(", inner")))
        .layer(attach)
        .layer(mark(", outer"))
        .route("/later", get(async || "not marked"));
    let service = service(router);
    assert_eq!(get_text(&service, "/").await, (Code::CONTENT, "attached, inner, outer".into()));
    assert_eq!(get_text(&service, "/no").await, (Code::NOT_FOUND, ", outer".into()));
    let refused = service.respond(request(Code::PUT, "/", |body| body)).await;
    assert_eq!(read(refused), (Code::METHOD_NOT_ALLOWED, ", inner, outer".into()));
    assert_eq!(get_text(&service, "/later").await, (Code::CONTENT, "not marked".into()));
}

#[derive(Clone, Default)]
struct EverySecond(Arc<AtomicU32>);

#[derive(Clone)]
struct EverySecondService<I> {
    count: Arc<AtomicU32>,
    inner: I,
}

impl<I> Layer<I> for EverySecond {
    type Service = EverySecondService<I>;

    fn layer(&self, inner: I) -> Self::Service {
        EverySecondService { count: Arc::clone(&self.0), inner }
    }
}

impl<I> Service<Request> for EverySecondService<I>
where
    I: Service<Request, Response = Response, Error = Infallible, Future: Send + 'static>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.count.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Box::pin(self.inner.call(request)),
            _ => Box::pin(async { Ok(Response::new(Code::TOO_MANY_REQUESTS)) }),
        }
    }
}

#[tokio::test]
async fn a_layer_that_is_written_out_may_answer_in_place_of_the_handler() {
    let resource = get(async || "read").layer(EverySecond::default()).post(async || ());
    let service = service(Router::new().route("/", resource));
    for expected in [Code::CONTENT, Code::TOO_MANY_REQUESTS, Code::CONTENT] {
        assert_eq!(get_text(&service, "/").await.0, expected);
    }
    for _ in 0..3 {
        let posted = service.respond(request(Code::POST, "/", |body| body)).await;
        assert_eq!(posted.code(), Code::CHANGED, "it was added after the layer");
    }
}

tokio::task_local! {
    static WHO: u8;
}

#[tokio::test]
async fn a_future_layer_wraps_every_poll_of_the_handler() {
    let soon = async || WHO.try_with(u8::to_string).unwrap_or_default();
    let late = async || {
        tokio::task::yield_now().await;
        WHO.try_with(u8::to_string).unwrap_or_default()
    };
    let router = Router::new().route("/soon", get(soon)).route("/late", get(late));
    let service = service(router.layer(MapFutureLayer::new(|future| WHO.scope(7, future))));
    for path in ["/soon", "/late"] {
        assert_eq!(get_text(&service, path).await, (Code::CONTENT, "7".into()), "{path}");
    }
}

#[tokio::test]
async fn a_function_around_handlers_may_refuse_attach_and_change() {
    #[derive(Clone)]
    struct Length(usize);

    async fn guard(mut request: Request, next: Next) -> Result<Response, Code> {
        if request.payload().is_empty() {
            return Err(Code::FORBIDDEN);
        }
        request.extend(Length(request.payload().len()));
        Ok(next.run(request).await.max_age(Duration::from_secs(1)))
    }

    let length = async |Extension(Length(length)): Extension<Length>| length.to_string();
    let service = service(Router::new().route("/", post(length)).layer(from_fn(guard)));
    let refused = service.respond(request(Code::POST, "/", |body| body)).await;
    assert_eq!(refused.code(), Code::FORBIDDEN);
    let passed = service.respond(request(Code::POST, "/", |body| body.payload("four"))).await;
    assert_eq!(read(passed), (Code::CHANGED, "4".into()));
}

#[tokio::test]
async fn an_extension_that_no_layer_attached_is_the_server_s_fault() {
    let service = service(Router::new().route("/", get(async |Extension(text): Extension<String>| text)));
    assert_eq!(get_text(&service, "/").await.0, Code::INTERNAL_SERVER_ERROR);
}
