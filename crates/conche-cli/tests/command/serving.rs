//! `conche serve DIR`, `conche ping`, `conche discover` and `conche relay`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;

use crate::common::{Ended, Process, conche, listening, run, serve};
use serde_json::Value;
use tempfile::TempDir;

fn ask(arguments: &[&str]) -> Ended {
    run(conche().args(arguments))
}

struct Files {
    directory: TempDir,
    _server: Process,
    address: SocketAddr,
}

impl Files {
    fn serve(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = directory.path().join("www");
        fs::create_dir_all(root.join("sub")).expect("it can be made");
        fs::create_dir(directory.path().join("secret")).expect("it can be made");
        for (name, content) in [
            ("www/hello.txt", &b"hello"[..]),
            ("www/data.json", b"{}"),
            ("www/sub/deep.bin", b"\x00\xff"),
            ("www/sub/plain", b"text"),
            ("www/.hidden", b"hidden"),
            ("www/large.txt", &[b'x'; 3000]),
            ("secret/key", b"secret"),
        ] {
            fs::write(directory.path().join(name), content).expect("it can be written");
        }
        let mut command = conche();
        command.arg("serve").arg(&root).args(["--bind", "127.0.0.1:0"]).args(arguments);
        let (server, address) = listening(&mut command);
        Self { directory, _server: server, address }
    }

    fn ask(&self, method: &str, path: &str, arguments: &[&str]) -> Ended {
        ask(&[&[method, &format!("coap://{}{path}", self.address)], arguments].concat())
    }

    fn code_of(&self, method: u8, segments: &[&str]) -> u8 {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        // CON without a token; each Uri-Path option.
        let mut request = vec![0x40, method, 0x12, 0x34];
        for (index, segment) in segments.iter().enumerate() {
            let length = u8::try_from(segment.len()).expect("a short segment");
            let delta = if index == 0 { 11 << 4 } else { 0 };
            match length {
                0..13 => request.push(delta | length),
                _ => request.extend([delta | 13, length - 13]),
            }
            request.extend(segment.as_bytes());
        }
        socket.send_to(&request, self.address).expect("it can be sent");
        loop {
            let mut response = [0; 1500];
            socket.recv(&mut response).expect("a response");
            let [header, code, id @ ..] = *response.first_chunk::<4>().expect("it has 1500 bytes");
            // A ping validates the source address.
            if (header, code) != (0x40, 0) {
                return code;
            }
            socket.send_to(&[0x70, 0, id[0], id[1]], self.address).expect("it can be sent");
        }
    }

    fn json(&self, path: &str, arguments: &[&str]) -> Value {
        let ended = self.ask("get", path, &[&["--json"], arguments].concat());
        serde_json::from_str(&ended.stdout).expect("JSON")
    }
}

fn option(json: &Value, name: &str) -> Option<String> {
    let options = json["options"].as_array().expect("options");
    let found = options.iter().find(|option| option["name"] == name)?;
    Some(found["value"].as_str().expect("text").to_owned())
}

#[test]
fn files_are_served_with_their_format_and_an_etag() {
    let files = Files::serve(&[]);
    let hello = files.json("/hello.txt", &[]);
    assert_eq!((&hello["code"], &hello["payload"]), (&"2.05".into(), &"hello".into()));
    let etag = option(&hello, "ETag").expect("an ETag");
    assert_eq!(files.json("/hello.txt", &["-O", &format!("4,{etag}")])["code"], "2.03");
    fs::write(files.directory.path().join("www/hello.txt"), "other").expect("it can be written");
    assert_eq!(files.json("/hello.txt", &["-O", &format!("4,{etag}")])["payload"], "other");
    for (path, format) in [("/data.json", "50"), ("/sub/deep.bin", "42"), ("/sub/plain", "0"), ("/sub", "40")] {
        let found = option(&files.json(path, &[]), "Content-Format").expect("a format");
        assert_eq!(found.split(' ').next(), Some(format), "{path}");
    }
}

// RFC 7252 §5.10.8
#[test]
fn a_failed_precondition_precedes_not_found() {
    let files = Files::serve(&[]);
    for (path, option, code) in [
        ("/missing", "1,0x01", "4.12"),
        ("/missing", "5", "4.04"),
        ("/hello.txt", "1,0x01", "4.12"),
        ("/hello.txt", "1", "2.05"),
        ("/hello.txt", "5", "4.12"),
    ] {
        assert_eq!(files.json(path, &["-O", option])["code"], code, "{path} with {option}");
    }
}

#[test]
fn files_of_many_blocks_are_read_listed_and_written_whole() {
    let files = Files::serve(&["--writable"]);
    let root = files.directory.path().join("www");
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    fs::write(root.join("image.bin"), &content).expect("it can be written");
    let [input, output] = ["www/image.bin", "copy"].map(|name| files.directory.path().join(name));
    let [input, output] = [input, output].map(|path| path.into_os_string().into_string().expect("a UTF-8 path"));

    let read = files.ask("get", "/image.bin", &["-o", &output]);
    assert_eq!((read.status, read.stdout.as_str()), (Some(0), ""), "{}", read.stderr);
    assert!(fs::read(&output).expect("it was written") == content, "the copy differs");

    let written = files.ask("put", "/sub/new.bin", &["-f", &input]);
    assert!(written.stderr.contains("2.01 Created"), "{}", written.stderr);
    assert!(fs::read(root.join("sub/new.bin")).expect("it was written") == content, "what was written differs");

    for number in 0..200 {
        fs::write(root.join(format!("sub/file-{number:03}.txt")), "x").expect("it can be written");
    }
    let there = format!("coap://{}", files.address);
    let found = ask(&["discover", &there, "href=/sub/file-*", "--json"]);
    assert_eq!(found.stdout.lines().count(), 200, "{}", found.stderr);
}

#[test]
fn blocks_have_the_size_that_is_asked_for() {
    let files = Files::serve(&[]);
    let read = files.ask("get", "/large.txt", &["-b", "64", "-v"]);
    assert_eq!(read.stdout, "x".repeat(3000));
    assert!(read.stderr.contains("no retransmission; 47 messages"), "{}", read.stderr);
    let refused = files.ask("get", "/large.txt", &["-b", "100"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("blocks have 16, 32, 64"), "{}", refused.stderr);
}

#[test]
fn a_block_of_a_file_that_has_changed_has_another_etag() {
    let files = Files::serve(&[]);
    let second = |files: &Files| {
        let block = files.json("/large.txt", &["-O", "23,0x16"]);
        (option(&block, "ETag").expect("an ETag"), block["payload"].as_str().expect("text").to_owned())
    };
    let (etag, payload) = second(&files);
    assert_eq!(payload, "x".repeat(1024));
    fs::write(files.directory.path().join("www/large.txt"), "y".repeat(3000)).expect("it can be written");
    let (other, payload) = second(&files);
    assert_eq!(payload, "y".repeat(1024));
    assert_ne!(other, etag);
}

#[test]
fn nothing_outside_of_the_directory_and_nothing_hidden_is_reached() {
    let files = Files::serve(&["--writable"]);
    #[cfg(unix)]
    for (link, to) in [("out", "../secret"), ("key", "../secret/key"), ("inside", "sub/plain")] {
        std::os::unix::fs::symlink(to, files.directory.path().join("www").join(link)).expect("a link can be made");
    }
    let (get, put, delete) = (1, 3, 4);
    for path in ["../secret/key", "sub/../../secret/key", "./../secret/key", "out/key", "out", "key"] {
        for method in [get, delete, put] {
            let code = files.code_of(method, &path.split('/').collect::<Vec<_>>());
            // PUT may replace a link in the directory, but not the link's target.
            let is_link = !path.contains('/') && method == put;
            assert!(code >> 5 == 4 || is_link, "{path}, method {method}: {}.{:02}", code >> 5, code & 0x1f);
        }
    }
    for segments in [&["../secret/key"][..], &["..\\secret"], &["", "hello.txt"], &["sub", "", "plain"]] {
        assert_eq!(files.code_of(get, segments) >> 5, 4, "{segments:?}");
    }
    assert_eq!(fs::read(files.directory.path().join("secret/key")).expect("it is there"), b"secret");
    for path in ["/.hidden", "/nothing", "/hello.txt/", "/hello.txt/x"] {
        assert_eq!(files.ask("get", path, &[]).status, Some(4), "{path}");
    }
    #[cfg(unix)]
    assert_eq!(files.ask("get", "/inside", &[]).stdout, "text");
}

#[test]
fn files_are_written_and_removed_only_if_that_is_allowed() {
    let files = Files::serve(&[]);
    for arguments in [&["put", "-e", "x"][..], &["delete"]] {
        let refused = files.ask(arguments[0], "/hello.txt", &arguments[1..]);
        assert!(refused.stderr.contains("4.05"), "{}", refused.stderr);
    }
    let files = Files::serve(&["--writable"]);
    for (method, path, arguments, told) in [
        ("put", "/new.txt", &["-e", "new"][..], "2.01 Created"),
        ("put", "/new.txt", &["-e", "newer"], "2.04 Changed"),
        ("put", "/new.txt", &["-e", "x", "-O", "5"], "4.12"),
        ("put", "/missing/new.txt", &["-e", "x"], "4.04"),
        ("put", "/sub", &["-e", "x"], "4.05"),
        ("delete", "/sub", &[], "4.05"),
        ("delete", "/hello.txt", &[], "2.02 Deleted"),
        ("delete", "/hello.txt", &[], "2.02 Deleted"),
        ("get", "/hello.txt", &[], "4.04"),
    ] {
        let ended = files.ask(method, path, arguments);
        assert!(ended.stderr.contains(told), "{method} {path}: {}", ended.stderr);
    }
    assert_eq!(files.ask("get", "/new.txt", &[]).stdout, "newer");
    let names = fs::read_dir(files.directory.path().join("www")).expect("it is there");
    assert!(names.flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with(".part")));
}

#[test]
fn a_missing_directory_is_reported() {
    let ended = ask(&["serve", "/nonexistent", "--bind", "127.0.0.1:0"]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("the directory /nonexistent cannot be served: "), "{}", ended.stderr);
}

#[test]
fn resources_are_discovered_as_a_table_or_as_objects() {
    let files = Files::serve(&[]);
    let there = format!("coap://{}", files.address);
    let table = ask(&["discover", &there]);
    for part in ["/hello.txt", "/sub/deep.bin", " json ", "3000"] {
        assert!(table.stdout.contains(part), "{part} in {}", table.stdout);
    }
    assert!(!table.stdout.contains("hidden"), "{}", table.stdout);
    let found = ask(&["discover", &there, "href=/sub/*", "--json"]);
    let targets: Vec<Value> = found.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let targets: Vec<_> = targets.iter().map(|line| line["target"].as_str().expect("text")).collect();
    assert_eq!(targets, ["/sub/deep.bin", "/sub/plain"]);
    let below = ask(&["discover", &format!("{there}/sub"), "--json"]);
    assert_eq!(below.stdout.lines().count(), 2, "{}", below.stdout);
    let none = ask(&["discover", &there, "rt=nothing"]);
    assert_eq!((none.status, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", "no resources\n"));
}

#[test]
fn pings_are_counted_and_timed() {
    let (_server, address) = serve();
    let there = format!("coap://{address}");
    let ended = ask(&["ping", &there, "-c", "3", "-i", "0.01"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    for part in ["1: ", "3: ", "3 pings, 3 answered, 0 % unanswered", "RTT min/avg/max/mdev = "] {
        assert!(ended.stdout.contains(part), "{part:?} in {}", ended.stdout);
    }
    let ended = ask(&["ping", &there, "-n", "1", "--json"]);
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["number"], &lines[1]["answered"]), (&1.into(), &1.into()), "{}", ended.stdout);

    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    let there = format!("coap://{}", silent.local_addr().expect("it is bound"));
    let ended = ask(&["ping", &there, "-n", "1", "-B", "0.05"]);
    assert_eq!(ended.status, Some(3));
    assert!(ended.stdout.contains("1: no answer within 50ms"), "{}", ended.stdout);
    assert_eq!(ask(&["ping", "http://h/"]).status, Some(2));

    // Only Linux reports that a port is closed.
    if cfg!(target_os = "linux") {
        drop(silent);
        let ended = ask(&["ping", &there, "-n", "1"]);
        assert_eq!(ended.status, Some(3));
        assert!(ended.stderr.contains("\nhint: no server listens on that port"), "{}", ended.stderr);
    }
}

#[cfg(unix)]
#[test]
fn a_relay_forwards_datagrams_and_prints_their_counts() {
    use std::io::Read;

    let (_server, address) = serve();
    let mut command = conche();
    command
        .args(["relay", &address.to_string(), "--delay", "1ms", "--loss", "0%"])
        .stderr(std::process::Stdio::piped());
    let (mut relay, there) = listening(&mut command);
    assert_eq!(ask(&["get", &format!("coap://{there}/test")]).stdout, "hello");
    let mut stderr = relay.0.stderr.take().expect("it is piped");
    relay.signal("INT");
    assert_eq!(relay.status(), Some(0));
    let mut told = String::new();
    stderr.read_to_string(&mut told).expect("text");
    assert_eq!(told, "forwarded 1 datagrams to the server and 1 to clients; lost 0 and 0\n");
    assert_eq!(ask(&["relay", "127.0.0.1:5683", "--loss", "0.1"]).status, Some(2));
}

#[test]
fn a_directory_without_the_playground_is_refused_with_the_command_that_writes_it() {
    let refused = ask(&["playground", "no-such-directory"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("no-such-directory has no conche-playground.wasm: `cargo xtask playground`"));
}

#[test]
fn metrics_are_served_over_http_beside_coap() {
    let mut serve = conche();
    serve.args(["serve", "--demo", "--bind", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut serve = Process(serve.spawn().expect("the command starts"));
    let mut lines = BufReader::new(serve.0.stdout.take().expect("it is piped")).lines();
    let mut announced = |scheme: &str| {
        let line = lines.next().expect("a line").expect("text");
        let address = line.strip_prefix(&format!("listening on {scheme}://")).map(str::to_owned);
        address.unwrap_or_else(|| panic!("{line}"))
    };
    let (coap, http) = (announced("coap"), announced("http"));
    assert_eq!(ask(&["get", &format!("coap://{coap}/test")]).stdout, "hello");
    // A connection without a request delays no other.
    let address = http.strip_suffix("/metrics").expect("the path");
    let _idle = TcpStream::connect(address).expect("it listens");
    let long = format!("GET /metrics HTTP/1.1\r\nCookie: {}\r\n\r\n", "c".repeat(1 << 18));
    for request in ["GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", &long] {
        let mut scraper = TcpStream::connect(address).expect("it listens");
        scraper.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        scraper.read_to_string(&mut answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{answer}");
        assert!(answer.contains("conche_requests_received_total 1\n") && answer.ends_with("# EOF\n"), "{answer}");
    }
}
