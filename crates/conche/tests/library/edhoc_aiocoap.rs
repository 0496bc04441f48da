//! EDHOC with aiocoap (RFC 9528; RFC 9668) in both roles. aiocoap uses its own implementation,
//! `lakers`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use conche::edhoc::{Credential, OwnCredential, Party, generate};
use conche::security::Identity;
use conche::server::get;
use conche::{Client, Server};

use crate::own_address::own_address;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/interop/aiocoap/edhoc.py");

/// Runs aiocoap with its OSCORE extra, in the Python that the variable names.
fn aiocoap(arguments: &[&str]) -> Command {
    let python = std::env::var("CONCHE_AIOCOAP").expect("CONCHE_AIOCOAP names a Python with aiocoap[oscore]");
    let mut command = Command::new(python);
    command.arg(PROGRAM).args(arguments);
    command
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn own(kid: &[u8], name: &str) -> OwnCredential {
    let key = generate().expect("there is randomness");
    let credential = Credential::of(&key, kid, name).expect("short");
    OwnCredential::new(key, credential).expect("they belong together")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn told(own: &OwnCredential, other: &OwnCredential) -> [String; 3] {
    [hex(&*own.key().to_bytes()), hex(own.credential().as_slice()), hex(other.credential().as_slice())]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs aiocoap"]
async fn aiocoap_agrees_with_our_server_in_both_ways() {
    for (kid, way) in [(&b"\x2b"[..], "combined"), (b"\x2b", "separate"), (b"four", "combined")] {
        let (theirs, ours) = (own(kid, "lamp-7"), own(b"\x32", "hall"));
        let told = told(&theirs, &ours);
        let party = Party::new(ours).with_peer(theirs.credential().clone()).expect("one alone");
        let who = async |who: Identity| who.to_string();
        let server = Server::builder().edhoc(party).secured_only().route("/who", get(who));
        let server = server.bind("127.0.0.1:0").await.expect("the loopback can be bound");
        let uri = format!("coap://{}/who", server.local_addr());
        let [key, credential, other] = &told;
        let mut client = aiocoap(&["client", &uri, key, credential, other, way]);
        let ended = tokio::task::spawn_blocking(move || client.output().expect("it starts")).await.expect("it ends");
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert_eq!(printed, "lamp-7\nlamp-7\nlamp-7\n", "{way}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs aiocoap"]
async fn our_client_agrees_with_aiocoap_in_both_ways() {
    for combined in [true, false] {
        let (ours, theirs) = (own(b"\x2b", "lamp-7"), own(b"\x32", "hall"));
        let address = own_address();
        let [key, credential, other] = told(&theirs, &ours);
        let mut command =
            aiocoap(&["server", &address.ip().to_string(), &address.port().to_string(), &key, &credential, &other]);
        let mut server = Process(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let mut line = String::new();
        let stdout = server.0.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says that it listens");
        assert_eq!(line, "ready\n");
        let party = Party::new(ours).with_peer(theirs.credential().clone()).expect("one alone").combined(combined);
        let client = Client::builder().edhoc(party).build().expect("legal settings");
        let uri = format!("coap://{address}/who");
        for _ in 0..3 {
            assert_eq!(client.get(&uri).await.expect("an answer").text().expect("a text"), ":lamp", "{combined}");
        }
    }
}
