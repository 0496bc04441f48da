//! Keys on the command line: rejected credentials, and messages without secrets.
#![cfg(unix)]

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Ended, Process, conche, listening, run};

pub const KEY: &str = "a key of sixteen";

const NOBODY: &str = "coaps://127.0.0.1:1/";

pub struct Files(TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a UTF-8 path").to_owned()
    }

    pub fn secret(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        path
    }

    pub fn pair(&self) -> [String; 2] {
        let made = ask(&["keygen", "--oscore", &self.path("lamp")]);
        assert_eq!(made.status, Some(0), "{}", made.stderr);
        let pair = ["client", "server"].map(|end| self.path(&format!("lamp-{end}.conf")));
        assert_eq!(made.stdout.lines().collect::<Vec<_>>(), pair);
        pair
    }
}

pub fn ask(arguments: &[&str]) -> Ended {
    run(conche().args(arguments))
}

pub fn serve(arguments: &[&str]) -> (Process, SocketAddr) {
    listening(serving(arguments).stderr(std::process::Stdio::null()))
}

pub fn lamp() -> (Files, Process, SocketAddr) {
    let files = Files::new();
    let keys = files.secret("keys", format!("lamp:{KEY}\n"));
    files.secret("lamp.key", KEY);
    files.secret("other.key", "another of 16 by");
    let (server, address) = serve(&["--psk-keys", &keys]);
    (files, server, address)
}

fn serving(arguments: &[&str]) -> Command {
    let mut command = conche();
    command.args(["serve", "--demo", "--bind", "127.0.0.1:0"]).args(arguments);
    command
}

#[test]
fn credentials_that_are_typed_for_coap_are_refused_and_those_of_the_environment_are_mentioned() {
    let files = Files::new();
    let key = files.secret("key", KEY);
    let typed: [&[&str]; 3] =
        [&["-u", "lamp", "--psk-key-file", &key], &["--ca", &key], &["--cert", &key, "--key", &key]];
    for arguments in typed {
        for command in ["get", "discover", "ping"] {
            let ended = ask(&[&[command, "coap://127.0.0.1:1/x"], arguments].concat());
            assert_eq!(ended.status, Some(2), "{command} {arguments:?}");
            assert!(ended.stderr.contains("protects nothing: write coaps://127.0.0.1:1/x"), "{}", ended.stderr);
        }
    }
    let (_server, address) = serve(&[]);
    let there = format!("coap://{address}/test");
    let environment = [("CONCHE_PSK_IDENTITY", "lamp"), ("CONCHE_PSK_KEY_FILE", &key)];
    let noted = run(conche().args(["get", &there]).envs(environment));
    let note = "* the credentials of the environment are not used: they are for coaps://\n";
    assert_eq!((noted.status, noted.stdout.as_str(), noted.stderr.as_str()), (Some(0), "hello", note));
    let quiet = run(conche().args(["get", "-q", &there]).envs(environment));
    assert_eq!((quiet.status, quiet.stderr.as_str()), (Some(0), ""));
}

#[test]
fn key_and_ca_exclude_each_other_and_arguments_precede_the_environment() {
    let files = Files::new();
    let key = files.secret("key", "short");
    let psk = ["-u", "lamp", "--psk-key-file", &key];
    let psk_environment = [("CONCHE_PSK_IDENTITY", "lamp"), ("CONCHE_PSK_KEY_FILE", &*key)];
    let both = ask(&[&["get", NOBODY, "--ca", "/nothing"][..], &psk].concat());
    assert_eq!(both.status, Some(2));
    assert!(both.stderr.contains("--ca cannot be combined with --psk-identity"), "{}", both.stderr);
    let both = run(conche().args(["get", NOBODY]).envs(psk_environment).env("CONCHE_CA", "/nothing"));
    assert_eq!(both.status, Some(2));
    assert!(both.stderr.contains("CONCHE_CA cannot be combined with CONCHE_PSK_IDENTITY"), "{}", both.stderr);
    let roots = run(conche().args(["get", NOBODY, "--ca", "/nothing"]).envs(psk_environment));
    assert!(roots.stderr.contains("/nothing cannot be read"), "{}", roots.stderr);
    let used = run(conche().args(["get", NOBODY]).args(psk).env("CONCHE_CA", "/nothing"));
    assert!(used.stderr.contains("fewer than 16 bytes"), "{}", used.stderr);
    assert_eq!(used.status, Some(3), "{}", used.stderr);
}

/// DER to PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = der.chunks(3).map(|three| {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        let digit =
            |place: usize| if place <= three.len() { char::from(DIGITS[bits >> (18 - 6 * place) & 63]) } else { '=' };
        (0..4).map(digit).collect::<String>()
    });
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", digits.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_private_key_that_is_not_that_of_the_certificate_is_refused_at_once() {
    let files = Files::new();
    let key = files.secret("key", pem("PRIVATE KEY", include_bytes!("../../../conche-dtls/tests/data/client.key")));
    let certificate = |name: &str, der: &[u8]| files.secret(name, pem("CERTIFICATE", der));
    let other = certificate("other", include_bytes!("../../../conche-dtls/tests/data/server.der"));
    let own = certificate("own", include_bytes!("../../../conche-dtls/tests/data/client.der"));
    let show = |certificate: &str| ask(&["get", NOBODY, "--ca", &own, "--cert", certificate, "--key", &key]);
    let mut serving = serving(&["--cert", &other, "--key", &key]);
    for ended in [show(&other), run(&mut serving)] {
        assert!(ended.stderr.contains("the private key is not that of the certificate"), "{}", ended.stderr);
        assert!(ended.stderr.contains(&other) && ended.stderr.contains(&key), "{}", ended.stderr);
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    }
    let ended = show(&own);
    assert!(!ended.stderr.contains("cannot be used"), "{}", ended.stderr);
}

#[test]
fn coaps_without_anything_to_show_or_believe_names_the_options() {
    let ended = ask(&["get", NOBODY, "--json"]);
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    let object: Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!((&object["kind"], &object["status"]), (&"usage".into(), &2.into()));
    let told = object["error"].as_str().expect("text");
    assert!(told.contains("(-u with --psk-key-file)") && told.contains("(--ca)"), "{told}");
}

#[test]
fn a_wrong_key_exits_with_status_6_and_no_key_is_ever_printed() {
    let files = Files::new();
    let keys = files.secret("keys", format!("# ours\r\nlamp:{KEY}\r\nurn:dev:1:0X{}\r\n", "ab".repeat(16)));
    let (_server, address) = serve(&["--psk-keys", &keys]);
    let there = format!("coaps://{address}/test");
    let (log, right, wrong) =
        (files.path("log"), files.secret("right", format!("{KEY}\r\n")), files.secret("wrong", "another of 16 by"));
    let got = ask(&["get", &there, "-u", "lamp", "--psk-key-file", &right, "-vvv", "--event-log", &log]);
    assert_eq!((got.status, got.stdout.as_str()), (Some(0), "hello"), "{}", got.stderr);
    let hex = KEY.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let log = fs::read_to_string(log).expect("it was written");
    for told in [&got.stderr, &log] {
        assert!(!told.is_empty() && !told.contains(KEY) && !told.contains(&hex), "{told}");
    }
    let bytes = files.secret("bytes", format!("0x{}\n", "AB".repeat(16)));
    let got = ask(&["get", &there, "-u", "urn:dev:1", "--psk-key-file", &bytes]);
    assert_eq!(got.stdout, "hello", "{}", got.stderr);

    let refused = ask(&["get", &there, "-u", "lamp", "--psk-key-file", &wrong, "--json"]);
    assert_eq!(refused.status, Some(6), "{}", refused.stderr);
    let object: Value = serde_json::from_str(&refused.stderr).expect("JSON");
    assert_eq!(object["kind"], "security");
    assert!(object["hint"].as_str().is_some_and(|hint| hint.contains("--psk-key-file")), "{object}");
    assert!(!refused.stderr.contains("another of 16 by"), "{}", refused.stderr);
}

#[test]
fn a_file_of_keys_is_refused_with_the_line_and_without_the_key() {
    let files = Files::new();
    for (text, told) in [
        (&b"\xef\xbb\xbflamp:sesame\n"[..], "line 1: there is a byte order mark"),
        (b"a:sesame\nb:ses\x07ame\n", "line 2: there is a control character, U+0007"),
        (b"a:sesame\nlamp: sesame\n", "line 2: there is a space before or behind the key"),
        (b"lamp :sesame\n", "line 1: there is a space before or behind the identity"),
        (b"a:sesame\n\na:sesame\n", "line 3: the identity \"a\" has a key already, in line 1"),
        (b"a:sesame\n\xff:sesame\n", "line 2: it is no text in UTF-8"),
        (b"a:0xsesame\n", "line 1: what follows 0x"),
        (b"sesame\n", "line 1: IDENTITY:KEY was expected"),
    ] {
        let keys = files.secret("keys", text);
        let ended = run(serving(&["--psk-keys"]).arg(&keys));
        assert_eq!(ended.status, Some(2), "{told}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("{keys}, {told}")), "{told}: {}", ended.stderr);
        assert!(!ended.stderr.contains("sesame"), "{}", ended.stderr);
    }
    for (text, told) in [
        (&b"\xef\xbb\xbfsesame"[..], "line 1: there is a byte order mark"),
        (b"sesame\nmore\n", "line 2: the file must hold one line"),
        (b"lamp:sesame\n", "it begins with the identity"),
        (b"sesame \n", "there is a space before or behind the key"),
        (b"\n", "the key has 0 bytes"),
    ] {
        let key = files.secret("key", text);
        let ended = ask(&["get", NOBODY, "-u", "lamp", "--psk-key-file", &key]);
        assert_eq!(ended.status, Some(2), "{told}: {}", ended.stderr);
        assert!(ended.stderr.contains(&key) && ended.stderr.contains(told), "{told}: {}", ended.stderr);
        assert!(!ended.stderr.contains("sesame"), "{}", ended.stderr);
    }
}

#[test]
fn a_directory_in_place_of_a_secret_keeps_its_rights() {
    let files = Files::new();
    let directory = files.path("keys");
    fs::create_dir(&directory).expect("it can be made");
    let ended = run(serving(&["--psk-keys"]).arg(&directory));
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert_eq!(ended.stderr, format!("conche: {directory} is a directory: name a file\n"));
}

#[test]
fn a_made_key_is_random_and_opens_a_session_and_overwrites_nothing() {
    let [one, other] = [(); 2].map(|()| ask(&["keygen"]).stdout);
    assert!(one.len() == 2 + 32 + 1 && one.starts_with("0x") && one != other, "{one:?} {other:?}");
    let files = Files::new();
    let key = files.path("key");
    assert_eq!(ask(&["keygen", "-o", &key]).status, Some(0));
    let made = fs::read_to_string(&key).expect("it was made");
    let (_server, address) = serve(&["--psk-keys", &files.secret("keys", format!("lamp:{made}"))]);
    let got = ask(&["get", &format!("coaps://{address}/test"), "-u", "lamp", "--psk-key-file", &key]);
    assert_eq!((got.stdout.as_str(), got.stderr.as_str()), ("hello", ""));
    let again = ask(&["keygen", "-o", &key]);
    assert_eq!(again.status, Some(2));
    assert!(again.stderr.contains(&format!("{key} is there already")), "{}", again.stderr);
    assert_eq!(fs::read_to_string(&key).expect("it is there"), made);

    let [client, server] = files.pair();
    fs::remove_file(&client).expect("it was made");
    let before = fs::read(&server).expect("it was made");
    assert_eq!(ask(&["keygen", "--oscore", &files.path("lamp")]).status, Some(2));
    assert!(!Path::new(&client).exists(), "half of a pair");
    assert_eq!(fs::read(&server).expect("it is there"), before);
}

/// From the OSCORE options (RFC 8613 §6.1) printed by `-v`.
fn numbers(told: &str) -> Vec<u64> {
    let options = told.lines().filter_map(|line| line.strip_prefix(">   OSCORE: 0x"));
    let number = |option: &str| {
        let bytes = usize::from(u8::from_str_radix(option.get(..2)?, 16).ok()? & 0b111);
        u64::from_str_radix(option.get(2..2 + 2 * bytes)?, 16).ok()
    };
    options.map(|option| number(option).expect("hexadecimal digits")).collect()
}

#[test]
fn requests_are_protected_from_end_to_end_and_no_number_comes_again_after_both_have_restarted() {
    let files = Files::new();
    let [client, server] = files.pair();
    let mut used = Vec::new();
    for round in 0..3 {
        // Killed at the end of the round, without a chance to save its state.
        let (_server, address) = serve(&["--oscore", &server]);
        let there = format!("coap://{address}/test");
        let got = ask(&["get", &there, "--oscore", &client, "-v"]);
        assert_eq!((got.status, got.stdout.as_str()), (Some(0), "hello"), "round {round}: {}", got.stderr);
        assert!(!got.stderr.contains("Uri-Path"), "{}", got.stderr);
        used.extend(numbers(&got.stderr));
        let plain = ask(&["get", &there]);
        assert_eq!(plain.status, Some(4), "{}", plain.stderr);
        assert!(plain.stderr.contains("4.01"), "{}", plain.stderr);
    }
    assert!(used.len() >= 3, "{used:?}");
    assert_eq!(used.iter().collect::<HashSet<_>>().len(), used.len(), "{used:?}");
    let secret = fs::read_to_string(&client).expect("it is there");
    let secret = secret.split('"').nth(1).expect("the master secret");
    let (_server, address) = serve(&["--oscore", &server]);
    let log = files.path("log");
    let there = format!("coap://{address}/test");
    let got = ask(&["get", &there, "--oscore", &client, "-vvv", "--event-log", &log]);
    assert_eq!(got.status, Some(0), "{}", got.stderr);
    assert!(!got.stderr.contains(secret), "{}", got.stderr);
    assert!(!fs::read_to_string(log).expect("it was written").contains(secret));
}

#[test]
fn credentials_of_another_pair_end_with_status_6_and_a_hint() {
    let (files, others) = (Files::new(), Files::new());
    let ([client, _], [_, server]) = (files.pair(), others.pair());
    let (_server, address) = serve(&["--oscore", &server]);
    let ended = ask(&["get", &format!("coap://{address}/test"), "--oscore", &client]);
    assert_eq!(ended.status, Some(6), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("hint: usually the credentials of client and server do not match"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_file_of_credentials_is_refused_if_others_can_read_it_or_with_its_wrong_line() {
    let files = Files::new();
    let [client, server] = files.pair();
    let text = fs::read_to_string(&client).expect("it was made");
    let secret = text.split('"').nth(1).expect("the master secret");
    let broken = files.secret("broken", format!("{text}aead_alg,text,\"ROT13\"\n"));
    let several = files.secret("several", format!("{text}recipient_id,hex,\"01\"\n"));
    for path in [&client, &server] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    }
    let there = "coap://127.0.0.1:1/";
    for (mut command, told) in [
        (asking(there, &client), format!("{client}: others can read the secret in it: chmod 600")),
        (serving(&["--oscore", &server]), format!("{server}: others can read the secret in it: chmod 600")),
        (asking(there, &broken), format!("{broken}:4: ")),
        (serving(&["--oscore", &broken]), format!("{broken}:4: ")),
        (asking(there, &several), format!("{several}:4: recipient_id was given before")),
    ] {
        let ended = run(&mut command);
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{told}: {}", ended.stderr);
        assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
    }
}

fn asking(uri: &str, credentials: &str) -> Command {
    let mut command = conche();
    command.args(["get", uri, "--oscore", credentials]);
    command
}
