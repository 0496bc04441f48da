//! The server API, mostly without sockets.

mod allocations;
mod formats;
mod layers;
mod running;

use conche::Code;
use conche::codec::{Body, BodyBuilder};
use conche::server::{Request, Response, Route, Router};

fn service(router: Router) -> Route {
    router.into_service().expect("the routes make sense")
}

fn request(method: Code, path: &str, rest: impl FnOnce(BodyBuilder) -> BodyBuilder) -> Request {
    let body = rest(Body::builder().path(path)).build().expect("legal options");
    Request::from_body("192.0.2.1:5683".parse().expect("an address"), method, &body).expect("a method")
}

async fn get_text(service: &Route, path: &str) -> (Code, String) {
    read(service.respond(request(Code::GET, path, |body| body)).await)
}

fn read(response: Response) -> (Code, String) {
    (response.code(), String::from_utf8_lossy(response.payload_bytes()).into_owned())
}
