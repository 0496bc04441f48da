//! Demonstration resources with representations larger than a message (RFC 7959).
//!
//! | resource | what it does | test cases |
//! |---|---|---|
//! | `/large` | GET | BLOCK 01, 02, 06 |
//! | `/large-update` | GET and PUT | BLOCK 03 |
//! | `/large-create` | POST creates a resource below it; the latest are kept | BLOCK 04 |
//! | `/large-post` | POST returns the payload in upper case | BLOCK 05 |

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use conche::server::{Path, Request, Response, Router, State, get, post};
use conche::{Code, ContentFormat};

use super::{Document, Representation, editable};

const KEPT: usize = 16;

pub fn router() -> Router {
    let large = text();
    let size = u32::try_from(large.len()).unwrap_or(u32::MAX);
    let update = editable().with_state(Document::of(Some(&large)));
    let read = get(move || {
        let large = large.clone();
        async move { large }
    });
    let create = Router::new().route("/large-create", post(create).title("POST makes a resource below it"));
    Router::new()
        .route("/large", read.title("Two blocks of text").format(ContentFormat::TEXT_PLAIN).size(size))
        .route("/large-update", update.title("A large document"))
        .merge(create.route("/large-create/{number}", get(created)).with_state(Arc::default()))
        .route("/large-post", post(upper_case).title("POST answers with the payload in upper case"))
}

fn text() -> String {
    "0123456789abcdef".repeat(125)
}

/// The latest last.
type Created = Arc<Mutex<VecDeque<(u64, Arc<Representation>)>>>;

async fn create(State(all): State<Created>, request: Request) -> Response {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let number = all.back().map_or(1, |(last, _)| last + 1);
    if all.len() == KEPT {
        all.pop_front();
    }
    all.push_back((number, Arc::new(Representation::of(&request))));
    Response::new(Code::CREATED).location(&format!("/large-create/{number}"))
}

async fn created(State(all): State<Created>, Path(number): Path<u64>) -> Option<Response> {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|(other, _)| *other == number).map(|(_, created)| created.response())
}

async fn upper_case(request: Request) -> Response {
    let format = request.content_format().unwrap_or(ContentFormat::TEXT_PLAIN);
    Response::new(Code::CHANGED).payload(format, request.payload().to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::super::LARGEST;
    use super::*;
    use conche::codec::{Block, BlockSize};
    use conche::{Client, Server};

    async fn start() -> (Server, String) {
        let server = Server::builder().router(router()).body_limit(LARGEST).bind("127.0.0.1:0").await;
        let server = server.expect("it starts");
        let there = format!("coap://{}", server.local_addr());
        (server, there)
    }

    fn clients() -> [Client; 3] {
        [BlockSize::B1024, BlockSize::B64, BlockSize::B16]
            .map(|size| Client::builder().block_size(size).build().expect("legal settings"))
    }

    // TD_COAP_BLOCK_01, 02, 06
    #[tokio::test]
    async fn a_large_resource_is_read_in_blocks_of_any_size() {
        let (_server, there) = start().await;
        for client in clients() {
            let response = client.get(format!("{there}/large")).await.expect("a response");
            assert_eq!((response.code(), response.text()), (Code::CONTENT, Ok(text().as_str())));
            assert!(response.payload().len() > 1280, "{} bytes", response.payload().len());
        }
        let second = Block { num: 1, more: false, size: BlockSize::B1024 };
        let response = Client::new().get(format!("{there}/large")).block(second).await.expect("a response");
        assert_eq!(response.payload(), &text().as_bytes()[1024..]);
    }

    // TD_COAP_BLOCK_03
    #[tokio::test]
    async fn a_large_resource_is_replaced_block_by_block() {
        let (_server, there) = start().await;
        let uri = format!("{there}/large-update");
        for (index, client) in clients().into_iter().enumerate() {
            let new = format!("{index}{}", text());
            let response = client.put(&uri).payload(ContentFormat::TEXT_PLAIN, new.clone()).await.expect("a response");
            assert_eq!(response.code(), Code::CHANGED);
            assert_eq!(Client::new().get(&uri).await.expect("a response").text(), Ok(new.as_str()));
        }
    }

    // TD_COAP_BLOCK_04
    #[tokio::test]
    async fn a_large_resource_is_created_at_the_returned_location() {
        let (_server, there) = start().await;
        for client in clients() {
            let made = client.post(format!("{there}/large-create")).payload(ContentFormat::JSON, text()).await;
            let made = made.expect("a response");
            let location = made.location().expect("a location");
            assert_eq!(made.code(), Code::CREATED);
            let read = client.get(format!("{there}{location}")).await.expect("a response");
            assert_eq!((read.text(), read.content_format()), (Ok(text().as_str()), Some(ContentFormat::JSON)));
        }
    }

    #[tokio::test]
    async fn only_the_latest_created_resources_are_kept() {
        let (_server, there) = start().await;
        let client = Client::new();
        for _ in 0..=KEPT {
            client.post(format!("{there}/large-create")).bytes("x").await.expect("a response");
        }
        for (number, code) in [(1, Code::NOT_FOUND), (2, Code::CONTENT), (KEPT + 1, Code::CONTENT)] {
            let read = client.get(format!("{there}/large-create/{number}")).await.expect("a response");
            assert_eq!(read.code(), code, "{number}");
        }
    }

    // TD_COAP_BLOCK_05
    #[tokio::test]
    async fn a_large_payload_is_answered_with_a_large_one() {
        let (_server, there) = start().await;
        for client in clients() {
            let response = client.post(format!("{there}/large-post")).bytes(text()).await.expect("a response");
            assert_eq!((response.code(), response.text()), (Code::CHANGED, Ok(text().to_uppercase().as_str())));
        }
    }
}
