//! `conche get --multicast`, with a member of a group on the loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use conche::server::get;
use conche::{EndpointConfig, Multicast, Server};
use serde_json::Value;

use crate::common::{Ended, conche, run};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 187);

async fn ask(arguments: Vec<String>) -> Ended {
    let command = move || run(conche().args(["get", "--multicast", "--bind", "127.0.0.1"]).args(arguments));
    tokio::task::spawn_blocking(command).await.expect("it ends")
}

#[tokio::test]
async fn each_response_of_a_group_is_shown_with_its_source() {
    let loopback = std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("there is a loopback");
    let loopback: u32 = loopback.trim().parse().expect("a number");
    let multicast = Some(Multicast::with_leisure(Duration::from_millis(50)));
    let member = Server::builder().config(EndpointConfig { multicast, ..EndpointConfig::default() });
    let member = member.route("/name", get(async || "lamp")).join_group(GROUP.into(), loopback);
    let member = member.bind("0.0.0.0:0").await.expect("it starts");
    let port = member.local_addr().port();
    let uri = |path: &str| format!("coap://{GROUP}:{port}{path}");

    let ended = ask(vec![uri("/name"), "-B".to_owned(), "1".to_owned()]).await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, format!("127.0.0.1:{port} answers 2.05 Content\nlamp\n"));

    let ended = ask(vec![uri("/name"), "--timeout".to_owned(), "1s".to_owned(), "--json".to_owned()]).await;
    let object: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!((&object["schema"], &object["payload"]), (&1.into(), &"lamp".into()));
    assert_eq!(object["from"], format!("127.0.0.1:{port}"));

    let nothing = ask(vec![uri("/nothing"), "-B".to_owned(), "500ms".to_owned()]).await;
    assert_eq!((nothing.status, nothing.stdout.as_str()), (Some(3), ""), "{}", nothing.stderr);
    let host = ask(vec![format!("coap://127.0.0.1:{port}/name")]).await;
    assert_eq!(host.status, Some(2), "{}", host.stderr);
}

#[tokio::test]
async fn a_group_cannot_be_asked_over_dtls() {
    let ended = ask(vec![format!("coaps://{GROUP}/name")]).await;
    assert_eq!(ended.status, Some(2));
    assert_eq!(ended.stderr, "conche: a group cannot be asked over DTLS: use coap://\n");
}
