//! Running and ended servers.

use std::time::Duration;

use conche::server::{Stopped, get};
use conche::{Client, Server};

#[tokio::test]
async fn waiting_for_a_server_that_serves_does_not_end() {
    let server = Server::builder().route("/", get(async || "here")).bind("127.0.0.1:0").await.expect("it starts");
    let request = Client::new().get(format!("coap://{}/", server.local_addr()));
    tokio::select! {
        ended = server.wait() => panic!("{ended:?}"),
        response = request.send() => assert_eq!(response.expect("a response").text(), Ok("here")),
    }
    // The wait leaves nothing that would keep the server from ending.
    server.shutdown(Duration::from_secs(60)).await;
}

#[test]
fn waiting_for_a_server_of_an_ended_runtime_returns_the_error_each_time() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let first = runtime();
    let server = first.block_on(Server::builder().bind("127.0.0.1:0")).expect("it starts");
    drop(first);
    let second = runtime();
    for _ in 0..2 {
        assert_eq!(second.block_on(server.wait()), Err(Stopped::Runtime));
    }
}

#[tokio::test]
async fn an_address_without_a_port_is_refused_with_the_right_form() {
    for address in ["127.0.0.1", "localhost", "127.0.0.1:coap"] {
        let error = Server::builder().bind(address).await.expect_err("no port").to_string();
        assert!(error.contains("its port is missing or no number: write HOST:PORT, such as"), "{error}");
    }
}
