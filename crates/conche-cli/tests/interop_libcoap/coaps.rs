//! `coaps` with pre-shared keys between our command and libcoap's, on OpenSSL and on GnuTLS: a
//! request, a body in blocks, and an observation, in both roles.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use crate::WITHOUT_TOOLS;
use crate::common::own_address::own_addresses;
use crate::common::{Process, conche, listening, run};

const LIBRARIES: [&str; 2] = ["openssl", "gnutls"];

const IDENTITY: &str = "lamp-7";
const KEY: &str = "a key of sixteen";

fn large() -> Vec<u8> {
    (0..65_536_u32).map(|index| b'a' + (index / 7 % 26) as u8).collect()
}

fn keys() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in [("key", format!("{KEY}\n")), ("keys", format!("# ours\n{IDENTITY}:{KEY}\n"))] {
        secret(&directory.path().join(name), &text);
    }
    directory
}

fn secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("it can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// Returns the `coaps` address: the port after the configured one.
fn libcoap_server(library: &str) -> (Process, SocketAddr) {
    let plain = own_addresses(2);
    let mut command = Command::new(format!("coap-server-{library}"));
    command.args(["-A", &plain.ip().to_string(), "-d", "10", "-k", KEY, "-h", "hint", "-p", &plain.port().to_string()]);
    let server = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect(WITHOUT_TOOLS));
    (server, SocketAddr::new(plain.ip(), plain.port() + 1))
}

#[test]
#[ignore = "needs libcoap3-bin"]
fn our_command_asks_a_libcoap_server_through_a_session() {
    let keys = keys();
    let body = keys.path().join("body");
    fs::write(&body, large()).expect("it can be written");
    for library in LIBRARIES {
        let (_server, address) = libcoap_server(library);
        let ask = |arguments: &[&str], path: &str| {
            let key = keys.path().join("key");
            let credentials = ["-u", IDENTITY, "--psk-key-file", &key.to_string_lossy()].map(str::to_owned);
            let ended = run(conche().args(arguments).args(credentials).arg(format!("coaps://{address}{path}")));
            (ended.status, ended.stdout)
        };
        let listens = (0..100).any(|_| {
            sleep(Duration::from_millis(50));
            ask(&["get"], "/").0 == Some(0)
        });
        assert!(listens, "{library}: {:?}", ask(&["get", "-v"], "/"));
        assert_eq!(ask(&["put", "--payload-file", &body.to_string_lossy()], "/large").0, Some(0), "{library}");
        assert_eq!(ask(&["get"], "/large"), (Some(0), String::from_utf8(large()).expect("letters")), "{library}");
        let (status, states) = ask(&["observe", "--count", "2"], "/time");
        assert_eq!((status, states.lines().count()), (Some(0), 2), "{library}: {states}");
        assert_eq!(ask(&["get"], "/nothing").0, Some(4), "{library}");
        for load in
            [&["bench", "-q", "-n", "200", "-c", "8", "-w", "4"][..], &["bench", "-q", "-n", "40", "--handshakes"]]
        {
            let (status, told) = ask(load, "/");
            assert!(status == Some(0) && !told.contains("without one"), "{library}: {told}");
        }
    }
}

#[test]
#[ignore = "needs libcoap3-bin"]
fn a_libcoap_client_asks_our_server_through_a_session() {
    let keys = keys();
    let files = keys.path().join("files");
    fs::create_dir(&files).expect("it can be made");
    let bind = ["--bind", "127.0.0.1:0", "--psk-keys", &keys.path().join("keys").to_string_lossy()].map(str::to_owned);
    let (_demo, demo) = listening(conche().args(["serve", "--demo"]).args(&bind));
    let (_files, writable) = listening(conche().args(["serve", "--writable"]).arg(&files).args(&bind));
    let sent = keys.path().join("sent");
    fs::write(&sent, large()).expect("it can be written");
    for library in LIBRARIES {
        let ask = |key: &str, arguments: &[&str], uri: &str| {
            let mut command = Command::new(format!("coap-client-{library}"));
            command.args(["-u", IDENTITY, "-k", key]).args(arguments).arg(uri);
            command.output().expect(WITHOUT_TOOLS).stdout
        };
        assert_eq!(ask(KEY, &[], &format!("coaps://{demo}/test")).trim_ascii_end(), b"hello", "{library}");
        let refused = ask("another key", &["-B", "3"], &format!("coaps://{demo}/test"));
        assert!(!String::from_utf8_lossy(&refused).contains("hello"), "{library}: {refused:?}");
        let once = ask(KEY, &[], &format!("coaps://{demo}/obs"));
        let observed = ask(KEY, &["-s", "6"], &format!("coaps://{demo}/obs"));
        assert!(observed.len() > once.len(), "{library}: {:?}", String::from_utf8_lossy(&observed));
        let (uri, got) = (format!("coaps://{writable}/{library}"), keys.path().join(library));
        ask(KEY, &["-m", "put", "-f", &sent.to_string_lossy()], &uri);
        assert_eq!(fs::read(files.join(library)).expect("it was put"), large(), "{library}");
        ask(KEY, &["-o", &got.to_string_lossy()], &uri);
        assert_eq!(fs::read(got).expect("it was got"), large(), "{library}");
    }
}
