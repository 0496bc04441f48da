//! Multicast requests (RFC 7252 §8) to servers in a group on this host.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use conche::client::GroupResponses;
use conche::server::get;
use conche::{Client, ContentFormat, EndpointConfig, Error, Multicast, Server};
use socket2::{Domain, Socket, Type};

const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 187);

/// Set on hosts without IPv6: no test may skip anything silently.
const WITHOUT_IPV6: &str = "CONCHE_TEST_WITHOUT_IPV6";

fn loopback() -> u32 {
    let index = std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("there is a loopback");
    index.trim().parse().expect("a number")
}

/// The index of an interface with IPv6 multicast, which the loopback supports only with a route.
fn interface_v6(group: Ipv6Addr) -> Option<u32> {
    let interfaces = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    let mut indices =
        interfaces.lines().filter_map(|line| u32::from_str_radix(line.split_whitespace().nth(1)?, 16).ok());
    indices.find(|&index| asking(Domain::IPV6, index).send_to(b"", (group, 9)).is_ok())
}

/// A socket that sends to groups through this interface.
fn asking(domain: Domain, interface: u32) -> UdpSocket {
    let socket = Socket::new(domain, Type::DGRAM, None).expect("there are sockets");
    let address: SocketAddr = if domain == Domain::IPV4 {
        socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("the loopback is an interface");
        (Ipv4Addr::LOCALHOST, 0).into()
    } else {
        socket.set_multicast_if_v6(interface).expect("it is an interface");
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    socket.bind(&address.into()).expect("it can be bound");
    socket.into()
}

/// A server socket with a shared port, in place of several hosts.
fn shared(domain: Domain, port: u16) -> UdpSocket {
    let socket = Socket::new(domain, Type::DGRAM, None).expect("there are sockets");
    socket.set_reuse_address(true).expect("it can be");
    let any: IpAddr = if domain == Domain::IPV4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::from((any, port)).into()).expect("the port is free");
    socket.into()
}

/// Leisure short enough not to wait for.
fn config() -> EndpointConfig {
    EndpointConfig { multicast: Some(Multicast::with_leisure(Duration::from_millis(50))), ..EndpointConfig::default() }
}

async fn member(name: &'static str, socket: UdpSocket, group: IpAddr, interface: u32) -> Server {
    let builder = Server::builder().config(config()).route("/name", get(move || async move { name }));
    builder.join_group(group, interface).socket(socket).await.expect("it starts")
}

async fn names(mut responses: GroupResponses) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    while let Some(response) = responses.next().await {
        let (from, response) = response.expect("it was sent");
        assert_eq!(from, response.from());
        names.insert(response.text().expect("a name").to_owned());
    }
    names
}

async fn ask(domain: Domain, group: IpAddr, interface: u32) {
    let first = shared(domain, 0);
    let port = first.local_addr().expect("it is bound").port();
    let second = shared(domain, port);
    let _members = [member("one", first, group, interface).await, member("two", second, group, interface).await];
    let asking = Server::builder().socket(asking(domain, interface)).await.expect("it starts");
    let client = asking.client();
    let group = SocketAddr::new(group, port);
    let within = Duration::from_secs(3);
    let responses = client.get(format!("coap://{group}/name")).timeout(within).multicast().await.expect("room");
    assert_eq!(names(responses).await, ["one", "two"].map(String::from).into());
    let nothing = client.get(format!("coap://{group}/nothing")).timeout(Duration::from_millis(500)).multicast();
    assert_eq!(names(nothing.await.expect("room")).await, BTreeSet::new(), "4.04 is suppressed");
}

// RFC 7252 §8 (Q82), §8.1 (Q84)
#[tokio::test]
async fn members_of_an_ipv4_group_answer_a_group_request() {
    ask(Domain::IPV4, GROUP_V4.into(), loopback()).await;
}

// RFC 7252 §8 (Q82), §8.1 (Q84)
#[tokio::test]
async fn members_of_an_ipv6_group_answer_a_group_request() {
    // Interface-local scope: nothing leaves the host.
    let group = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 0xfd);
    if std::env::var_os(WITHOUT_IPV6).is_some() {
        return;
    }
    let interface = interface_v6(group).unwrap_or_else(|| {
        panic!("no interface of this host takes multicast of IPv6; where that is known, set {WITHOUT_IPV6}")
    });
    ask(Domain::IPV6, group.into(), interface).await;
}

#[cfg(feature = "edhoc")]
#[tokio::test]
async fn a_group_request_starts_no_edhoc_exchange() {
    use conche::edhoc::{Credential, OwnCredential, Party, generate};

    let key = generate().expect("there is randomness");
    let credential = Credential::of(&key, b"\x02", "hall").expect("short");
    let hall = Party::new(OwnCredential::new(key, credential).expect("they belong together"));
    let socket = shared(Domain::IPV4, 0);
    let port = socket.local_addr().expect("it is bound").port();
    let builder = Server::builder().config(config()).edhoc(hall).route("/name", get(async || "hall"));
    let _server = builder.join_group(GROUP_V4.into(), loopback()).socket(socket).await.expect("it starts");
    // PROBING_RATE delays the same client's second request.
    let [first, second] = [(), ()].map(|()| Server::builder().socket(asking(Domain::IPV4, loopback())));
    let (first, second) = (first.await.expect("it starts"), second.await.expect("it starts"));
    let (group, within) = (SocketAddr::new(GROUP_V4.into(), port), Duration::from_millis(500));
    let name = first.client().get(format!("coap://{group}/name")).timeout(within).multicast().await.expect("room");
    assert_eq!(names(name).await, ["hall".to_owned()].into());
    let begin = second.client().post(format!("coap://{group}/.well-known/edhoc"));
    let message_1 = super::edhoc::message_1(0x37);
    let begin = begin.payload(ContentFormat(65), message_1).timeout(within).multicast().await.expect("room");
    assert_eq!(names(begin).await, BTreeSet::new());
}

// RFC 7252 §8.1 (Q83)
#[tokio::test]
async fn a_group_is_asked_by_multicast_only_and_a_host_never() {
    let client = Client::new();
    let error = client.get("coap://224.0.1.187/").await.expect_err("a group");
    assert!(matches!(error, Error::Group { .. }) && !error.was_sent(), "{error}");
    let error = client.get("coap://127.0.0.1/").multicast().await.expect_err("a host");
    assert!(matches!(error, Error::NoGroup { .. }), "{error}");
}
