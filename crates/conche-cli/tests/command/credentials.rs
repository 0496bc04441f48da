//! `conche.toml`: credentials by URI, and rejected files.
#![cfg(unix)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{Ended, conche, run};
use crate::security::{Files, KEY, ask, lamp, serve};

fn entry(uri: &str, key: &str) -> String {
    format!("[[credentials]]\nuri = \"{uri}\"\npsk-identity = \"lamp\"\npsk-key-file = \"{key}\"\n")
}

fn get(address: SocketAddr, config: &str) -> Ended {
    ask(&["get", &format!("coaps://{address}/test"), "--config", config])
}

#[test]
fn an_entry_for_the_uri_spares_the_arguments_wherever_the_file_is() {
    let (files, _server, address) = lamp();
    let there = format!("coaps://{address}/test");
    fs::create_dir(files.path("conche")).expect("it can be made");
    let text = entry(&format!("coaps://127.0.0.1:{}/*", address.port()), "../lamp.key");
    let file = files.secret("conche/conche.toml", &text);
    let got = run(conche().args(["get", &there]).env("XDG_CONFIG_HOME", files.path("")));
    assert_eq!((got.stdout.as_str(), got.stderr.as_str()), ("hello", ""));
    let got = run(conche().args(["get", &there]).env("CONCHE_CONFIG", &file));
    assert_eq!((got.stdout.as_str(), got.stderr.as_str()), ("hello", ""));
    let got = run(conche().args(["get", &there, "--config", &file]).env("CONCHE_CONFIG", "/nothing"));
    assert_eq!((got.stdout.as_str(), got.stderr.as_str()), ("hello", ""));
    assert_eq!(ask(&["ping", "-n", "1", &there, "--config", &file]).status, Some(0));
    assert_eq!(ask(&["discover", &format!("coaps://{address}"), "--config", &file]).status, Some(0));

    let told = ask(&["get", &there, "--config", &file, "-v"]).stderr;
    let expected = format!("* credentials for coaps://127.0.0.1:{}/* from line 2 of {file}\n", address.port());
    assert!(told.contains(&expected) && !told.contains(KEY), "{told}");
    let none = ask(&["get", "coaps://127.0.0.2/", "--config", &file]);
    assert_eq!(none.status, Some(2));
    assert!(none.stderr.contains(&format!("(--ca); {file} has none for this URI")), "{}", none.stderr);
}

#[test]
fn arguments_and_environment_precede_the_most_specific_entry() {
    let (files, _server, address) = lamp();
    let (right, wrong) = (files.path("lamp.key"), files.path("other.key"));
    let exact = format!("coaps://{address}");
    for (text, status) in [
        (entry("coaps://*:*", &wrong) + &entry(&exact, &right), 0),
        (entry(&exact, &right) + &entry("coaps://*:*", &wrong), 0),
        (entry(&exact, &wrong) + &entry("coaps://*:*", &right), 6),
    ] {
        let ended = get(address, &files.secret("conche.toml", &text));
        assert_eq!(ended.status, Some(status), "{text}{}", ended.stderr);
    }
    let file = files.secret("conche.toml", entry(&exact, &wrong));
    let typed = ask(&["get", &format!("{exact}/test"), "--config", &file, "-u", "lamp", "--psk-key-file", &right]);
    assert_eq!(typed.stdout, "hello", "{}", typed.stderr);
    let environment = [("CONCHE_PSK_IDENTITY", "lamp"), ("CONCHE_PSK_KEY_FILE", &right), ("CONCHE_CONFIG", &file)];
    let got = run(conche().args(["get", &format!("{exact}/test")]).envs(environment));
    assert_eq!(got.stdout, "hello", "{}", got.stderr);
}

/// Containers often run as a user without access to HOME.
#[test]
fn a_default_file_that_cannot_be_read_is_no_error_and_a_named_one_is() {
    let (_server, address) = crate::common::serve();
    let files = Files::new();
    fs::create_dir(files.path("conche")).expect("it can be made");
    let file = files.secret("conche/conche.toml", "[[credentials]]\nuri = \"coap://*:*\"\noscore = \"missing\"\n");
    let uri = format!("coap://{address}/test");
    let as_nobody = |arguments: &[&str]| {
        let mut command = conche();
        command.args(arguments).env("XDG_CONFIG_HOME", files.path(""));
        unprivileged(&files, &mut command)
    };
    fs::set_permissions(files.path("conche"), fs::Permissions::from_mode(0o000)).expect("it is ours");
    let ended = as_nobody(&["get", &uri, "-v"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), "hello"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("* {file} is not used: permission denied\n")), "{}", ended.stderr);
    let named = as_nobody(&["get", &uri, "--config", &file]);
    assert_eq!(named.status, Some(2), "{}", named.stderr);
    assert!(named.stderr.contains(&file), "{}", named.stderr);
    // Lets the test remove the directory.
    fs::set_permissions(files.path("conche"), fs::Permissions::from_mode(0o700)).expect("it is ours");
}

/// Root can read files of any mode.
fn unprivileged(files: &Files, command: &mut Command) -> Ended {
    if !nix::unistd::geteuid().is_root() {
        return run(command);
    }
    const NOBODY: u32 = 65_534;
    // The user may have no access to the build directory.
    let program = files.path("program");
    if !fs::exists(&program).expect("the directory can be read") {
        // Copied by another process: a child of a concurrent test would have the copy open for
        // writing.
        let copied = Command::new("cp").arg(command.get_program()).arg(&program).status().expect("it is installed");
        assert!(copied.success(), "it can be copied");
        fs::set_permissions(files.path(""), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let mut other = Command::new(program);
    other.args(command.get_args()).current_dir("/").uid(NOBODY).gid(NOBODY);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    run(&mut other)
}

#[test]
fn a_file_in_the_working_directory_is_not_read() {
    let (files, _server, address) = lamp();
    fs::create_dir(files.path("conche")).expect("it can be made");
    for name in ["conche.toml", "conche/conche.toml"] {
        files.secret(name, entry("coaps://*:*", &files.path("lamp.key")));
    }
    for settings in ["", "."] {
        let mut command = conche();
        command.args(["get", &format!("coaps://{address}/test")]).current_dir(files.path(""));
        let ended = run(command.env("XDG_CONFIG_HOME", settings).env("HOME", settings));
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.ends_with("or CA certificates (--ca)\n"), "{}", ended.stderr);
    }
}

#[test]
fn requests_are_protected_with_the_keys_of_an_entry_and_pings_go_as_they_are() {
    let files = Files::new();
    let [client, server] = files.pair();
    let (_server, address) = serve(&["--oscore", &server]);
    let text = format!("[[credentials]]\nuri = \"coap://{address}/*\"\noscore = \"{client}\"\n");
    let file = files.secret("conche.toml", text);
    let got = ask(&["get", &format!("coap://{address}/test"), "--config", &file, "-v"]);
    assert_eq!((got.status, got.stdout.as_str()), (Some(0), "hello"), "{}", got.stderr);
    assert!(got.stderr.contains(">   OSCORE: 0x"), "{}", got.stderr);
    assert_eq!(ask(&["ping", "-n", "1", &format!("coap://{address}"), "--config", &file]).status, Some(0));
}

#[test]
fn oscore_keys_of_an_entry_apply_in_a_session_of_typed_credentials() {
    let files = Files::new();
    let [client, server] = files.pair();
    let keys = files.secret("keys", format!("lamp:{KEY}\n"));
    let key = files.secret("lamp.key", KEY);
    let (_server, address) = serve(&["--psk-keys", &keys, "--oscore", &server]);
    let there = format!("coaps://{address}/test");
    let text = format!("{}oscore = \"{client}\"\n", entry("coaps://*:*", "/nothing"));
    let file = files.secret("conche.toml", text);
    let got = ask(&["get", &there, "--config", &file, "-v", "-u", "lamp", "--psk-key-file", &key]);
    assert_eq!((got.status, got.stdout.as_str()), (Some(0), "hello"), "{}", got.stderr);
    assert!(got.stderr.contains(">   OSCORE: 0x"), "{}", got.stderr);
}

#[test]
fn accessible_or_malformed_credentials_files_are_refused() {
    let (files, _server, address) = lamp();
    let file = files.secret("conche.toml", entry("coaps://*:*", "lamp.key"));
    for mode in [0o640, 0o620, 0o604, 0o602] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        let ended = get(address, &file);
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("run chmod 600 {file}")), "{}", ended.stderr);
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    for (text, told, line) in [
        (entry("coaps://*:*", "lamp.key").replace("identity", "identiti"), "did you mean `psk-identity`?", 3),
        (entry("coaps://*:*", "a") + &entry("coaps://*:*/", "b"), "line 2 has credentials for the same URIs", 6),
        (entry("http://*", "a"), "coap", 2),
    ] {
        let ended = get(address, &files.secret("conche.toml", &text));
        assert_eq!(ended.status, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("--> {file}:{line}:")), "{}", ended.stderr);
    }
    let missing = get(address, "/nothing");
    assert_eq!(missing.status, Some(2));
    assert!(missing.stderr.contains("/nothing cannot be read"), "{}", missing.stderr);
}
