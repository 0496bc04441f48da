//! EDHOC key exchange with files of `conche keygen --edhoc`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{conche, listening, run};

struct Files(tempfile::TempDir);

impl Files {
    fn pair() -> (Self, String, String) {
        let directory = tempfile::tempdir().expect("there is room");
        let name = directory.path().join("lamp").to_string_lossy().into_owned();
        let made = run(conche().args(["keygen", "--edhoc", &name]));
        assert_eq!(made.status, Some(0), "{}", made.stderr);
        let mut lines = made.stdout.lines().map(str::to_owned);
        let (client, server) = (lines.next().expect("a file"), lines.next().expect("a file"));
        (Self(directory), client, server)
    }

    fn secret(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("there is room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        path.to_string_lossy().into_owned()
    }
}

#[test]
fn edhoc_succeeds_between_configured_peers_only() {
    let (_files, client, server) = Files::pair();
    let arguments = ["serve", "--demo", "--bind", "127.0.0.1:0", "--edhoc", &server];
    let (_server, address) = listening(conche().args(arguments));
    let there = format!("coap://{address}/test");
    for more in [&[][..], &["--edhoc-combined"]] {
        let got = run(conche().args(["get", &there, "--edhoc", &client, "-v"]).args(more));
        assert_eq!((got.status, got.stdout.as_str()), (Some(0), "hello"), "{}", got.stderr);
        assert!(got.stderr.contains("edhoc") && !got.stderr.contains("test\n"), "{}", got.stderr);
    }
    let plain = run(conche().args(["get", &there]));
    assert_eq!(plain.status, Some(4), "{}", plain.stderr);
    let secured = run(conche().args(["get", "coaps://127.0.0.1:1/test", "--edhoc", &client]));
    assert_eq!(secured.status, Some(2), "{}", secured.stderr);
    assert!(secured.stderr.contains("--edhoc is for coap://"), "{}", secured.stderr);
    // A client of another pair.
    let (others, stranger, _) = Files::pair();
    let refused = run(conche().args(["get", &there, "--edhoc", &stranger]));
    assert_eq!(refused.status, Some(6), "{}", refused.stderr);
    assert!(refused.stderr.contains("no keys were agreed on"), "{}", refused.stderr);
    // A server other than the one in our file: the cause is printed once.
    let (_thirds, unlike, _) = Files::pair();
    let other = fs::read_to_string(&client).expect("it was made");
    let peers =
        fs::read_to_string(&unlike).expect("it was made").split_once("peers").expect("it has some").1.to_owned();
    let mixed =
        others.secret("mixed", &format!("{}peers{peers}", other.split("peers").next().expect("what is before")));
    let unknown = run(conche().args(["get", &there, "--edhoc", &mixed]));
    let cause = "the other end's credential is not known";
    assert_eq!((unknown.status, unknown.stderr.matches(cause).count()), (Some(6), 1), "{}", unknown.stderr);
}

#[test]
fn a_file_that_others_can_read_or_that_is_none_is_refused_and_its_secret_not_shown() {
    let (files, client, _) = Files::pair();
    let text = fs::read_to_string(&client).expect("it was made");
    let secret = text.split('"').nth(3).expect("the private key").to_owned();
    let without_peers = text.split("peers").next().expect("what is before").to_owned();
    for (file, told) in [
        (files.secret("nobody", &without_peers), "peers is empty"),
        (files.secret("unknown", &format!("{text}colour = 1\n")), "colour"),
        (files.secret("short", &text.replacen(&secret, &secret[..60], 1)), "private_key must have 32 bytes"),
        (files.secret("zero", &text.replacen(&secret, &"00".repeat(32), 1)), "private_key is none of P-256"),
        (files.secret("other", &text.replacen(&secret, &"01".repeat(32), 1)), "does not belong to the credential"),
        (files.secret("unquoted", &text.replacen(&format!("\"{secret}\""), &secret, 1)), "cannot be used"),
    ] {
        let ended = run(conche().args(["get", "coap://127.0.0.1:1/", "--edhoc", &file]));
        assert_eq!(ended.status, Some(2), "{told}: {}", ended.stderr);
        assert!(ended.stderr.contains(told) && !ended.stderr.contains(&secret), "{told}: {}", ended.stderr);
    }
    fs::set_permissions(&client, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let ended = run(conche().args(["get", "coap://127.0.0.1:1/", "--edhoc", &client]));
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("chmod 600"), "{}", ended.stderr);
}
