//! LwM2M over `coaps` with Eclipse Leshan (`tools/interop/leshan/`) as device and as server.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use conche::codec::OptionNumber;
use conche::security::{Identity, OwnCertificate, Roots, Secret};
use conche::server::{Notifier, Peer, Response, State, get, post};
use conche::{Code, ContentFormat, Server};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

const CREDENTIALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/interop/credentials");

const SENML_JSON: ContentFormat = ContentFormat(110);

const MODES: [&str; 2] = ["psk", "mutual"];

struct Leshan {
    process: Child,
    lines: UnboundedReceiver<String>,
}

impl Leshan {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let class_path =
            std::env::var("CONCHE_LESHAN").expect("CONCHE_LESHAN is the class path of tools/interop/leshan");
        let mut command = Command::new("java");
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &class_path, program]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("java starts");
        let stdout = process.stdout.take().expect("it is piped");
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, lines }
    }

    async fn line(&mut self, beginning: &str) -> String {
        let found = async {
            loop {
                let line = self.lines.recv().await.expect("the program has ended");
                assert!(!line.starts_with("failed"), "{line}");
                if let Some(rest) = line.strip_prefix(beginning) {
                    return rest.trim().to_owned();
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        found.unwrap_or_else(|_| panic!("Leshan does not print {beginning:?}"))
    }
}

impl Drop for Leshan {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{CREDENTIALS}/{name}")).expect("it is there")
}

fn psk() -> (Vec<u8>, Secret) {
    let text = String::from_utf8(file("psk")).expect("text");
    let (identity, key) = text.trim_end().split_once(':').expect("two parts");
    (identity.into(), Secret::new(key))
}

fn roots() -> Roots {
    Roots::from_pem(&file("ca.pem")).expect("a root")
}

fn own(name: &str) -> OwnCertificate {
    OwnCertificate::from_pem(&file(&format!("{name}.pem")), &file(&format!("{name}.key"))).expect("a pair")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Leshan"]
async fn a_device_registers_at_leshan_and_is_read_and_observed_through_its_session() {
    for mode in MODES {
        let mut leshan = Leshan::start("Server", &[mode, CREDENTIALS]);
        let at: SocketAddr = leshan.line("listening").await.parse().expect("an address");

        let (level, changed) = (Arc::new(AtomicI64::new(40)), Notifier::default());
        let read_level = async |State(level): State<Arc<AtomicI64>>| level.load(Ordering::Relaxed).to_string();
        let instance = async || {
            let records = r#"[{"bn":"/3/0/","n":"0","vs":"Example Lamps"},{"n":"9","v":40}]"#;
            Response::new(Code::CONTENT).payload(SENML_JSON, records)
        };
        let builder = match mode {
            "psk" => Server::builder().outgoing_psk(psk().0, psk().1).expect("a key"),
            _ => Server::builder().outgoing_roots(roots()).outgoing_certificate(own("client")),
        };
        let builder = builder.secured_only().route("/3/0", get(instance));
        let level_route = get(read_level).observed_by(&changed).with_state(Arc::clone(&level));
        let device = builder.route("/3/0/9", level_route).bind("127.0.0.1:0").await.expect("a port");

        let endpoint = if mode == "psk" { "lamp-7" } else { "client" };
        let register = device.client().post(format!("coaps://{at}/rd?ep={endpoint}&lt=300&lwm2m=1.1&b=U"));
        let response = register.payload(ContentFormat::LINK_FORMAT, "</3/0>").await.expect("answered");
        assert_eq!(response.code(), Code::CREATED, "{mode}: {response:?}");
        match response.peer_identity().expect("authenticated") {
            Identity::Psk(identity) => assert_eq!(**identity, *b"lamp-7"),
            Identity::Certificate(certificate) => assert_eq!(certificate.common_name().as_deref(), Some("server")),
            other => panic!("{other:?}"),
        }
        assert_eq!(leshan.line("registered").await, endpoint);
        assert_eq!(leshan.line("read").await, "Example Lamps");
        assert_eq!(leshan.line("observed").await, "40");
        for next in [41, 42] {
            level.store(next, Ordering::Relaxed);
            changed.notify();
            assert_eq!(leshan.line("notified").await, next.to_string());
        }
        let location = response.location().expect("where the registration is");
        let deregister = device.client().delete(format!("coaps://{at}{location}")).await.expect("answered");
        assert_eq!(deregister.code(), Code::DELETED);
        assert_eq!(leshan.line("deregistered").await, endpoint);
    }
}

type Registration = (SocketAddr, Identity);

async fn register(
    Peer(peer): Peer,
    identity: Identity,
    State(registered): State<UnboundedSender<Registration>>,
) -> Response {
    registered.send((peer, identity)).expect("the test waits for it");
    Response::new(Code::CREATED).option(OptionNumber::LOCATION_PATH, b"rd").option(OptionNumber::LOCATION_PATH, b"1")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Leshan"]
async fn leshan_registers_at_our_server_and_is_read_and_observed_through_its_session() {
    for mode in MODES {
        let (registered, mut registrations) = mpsc::unbounded_channel();
        let builder = match mode {
            "psk" => Server::builder().psk(|identity: &[u8]| (identity == psk().0).then(|| psk().1)),
            _ => Server::builder().certificate(own("server")).client_roots(roots()),
        };
        let builder = builder.route("/rd", post(register).with_state(registered));
        let server = builder.bind("127.0.0.1:0").await.expect("a port");
        let mut leshan = Leshan::start("Device", &[mode, CREDENTIALS, &server.local_addr().to_string()]);
        assert_eq!(leshan.line("registered").await, "/rd/1");

        let (at, identity) = registrations.recv().await.expect("a registration");
        match &identity {
            Identity::Psk(identity) => assert_eq!(**identity, *b"lamp-7"),
            Identity::Certificate(certificate) => assert_eq!(certificate.common_name().as_deref(), Some("client")),
            other => panic!("{other:?}"),
        }
        let ask = |path: &str| {
            let request = server.client().get(format!("coaps://{at}{path}"));
            request.timeout(Duration::from_secs(60)).expect_peer(identity.clone())
        };
        let device = ask("/3/0").accept(SENML_JSON).await.expect("answered");
        let text = device.text().expect("JSON").to_owned();
        assert!(device.code() == Code::CONTENT && text.contains("Leshan"), "{mode}: {device:?}");

        let mut levels = ask("/3/0/9").accept(ContentFormat::TEXT_PLAIN).observe();
        let mut last = -1;
        for _ in 0..3 {
            let state = levels.next().await.expect("goes on").expect("a state").successful().expect("a level");
            let level: i64 = state.text().expect("text").parse().expect("a number");
            assert!(level > last, "{mode}: {level} after {last}");
            assert_eq!(state.peer_identity(), Some(&identity));
            last = level;
        }
        let other = ask("/3/0").expect_peer(Identity::psk("lamp-8")).await.expect_err("another device");
        assert!(matches!(other, conche::Error::UnexpectedPeer { .. }), "{other:?}");
    }
}
