//! Keys that were agreed on (EDHOC, RFC 9528; RFC 9668) while messages are held back, and while handlers take their time.

use std::future::IntoFuture;
use std::time::Duration;

use conche::{AnyController, Client, Code, EndpointConfig, Error, Failure};

use crate::between::{Act, Foe, Toward};
use crate::edhoc::{parties, restarted, server};

/// Several requests may be under way at a time.
fn hasty() -> conche::client::ClientBuilder {
    let mut config = EndpointConfig::default();
    config.transmission.nstart = 4;
    let controller = AnyController::by_name("cocoa-s").expect("there is one");
    Client::builder().config(config).controller(controller)
}

#[tokio::test]
async fn an_error_that_comes_late_for_earlier_keys_leaves_the_new_ones_as_they_are() {
    let (lamp, hall) = parties();
    let first = server(hall.clone()).await;
    let foe = Foe::before(first.local_addr()).await;
    let (uri, client) = (format!("coap://{}/who", foe.address), hasty().edhoc(lamp).build().expect("legal settings"));
    assert_eq!(client.get(&uri).await.expect("an answer").code(), Code::CONTENT);
    let _second = restarted(first, hall).await;
    // Two requests with the keys that are lost, and both errors are kept back.
    foe.act(Toward::Client, 0, Act::Hold);
    let early = tokio::spawn(client.get(&uri).into_future());
    foe.holds(Toward::Client, 1).await;
    let late = tokio::spawn(client.get(&uri).into_future());
    foe.holds(Toward::Client, 2).await;
    foe.act(Toward::Client, usize::MAX, Act::Pass);
    let errors = foe.take(Toward::Client);
    let refused = |answer: Result<_, Error>| {
        let error = answer.map(|_: conche::client::Response| ()).expect_err("the keys are gone");
        assert!(matches!(error, Error::Failed { failure: Failure::NotAuthenticated(_), .. }), "{error:?}");
    };
    foe.release(Toward::Client, &errors[..1]).await;
    refused(early.await.expect("it does not panic"));
    assert_eq!(client.get(&uri).await.expect("with new keys").code(), Code::CONTENT);
    foe.release(Toward::Client, &errors[1..2]).await;
    refused(late.await.expect("it does not panic"));
    let before = client.stats().await.datagrams_sent;
    assert_eq!(client.get(&uri).await.expect("with the same").code(), Code::CONTENT);
    assert_eq!(client.stats().await.datagrams_sent, before + 1, "nothing had to be agreed on");
}
