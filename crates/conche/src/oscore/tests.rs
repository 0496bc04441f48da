//! Reads files of libcoap and aiocoap, and checks that numbers persist.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, MessageId, MessagePool, OwnedMessage, Token, Type};
use conche_proto::oscore::{Contexts, Refused};

use super::*;

fn write(file: &Path, text: &str, mode: u32) {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options.open(file).and_then(|mut file| file.write_all(text.as_bytes())).expect("it can be written");
}

const SERVER: &str = "\
# As in coap_oscore_conf(5).
master_secret,hex,\"0102030405060708090a0b0c0d0e0f10\"
master_salt,hex,\"9e7ca92223786340\"

sender_id,ascii,\"server\"
recipient_id,ascii,\"client\"
replay_window,integer,48
aead_alg,integer,10
hkdf_alg,integer,-10
";

/// The same credentials with a secret that begins with this byte: keys in use must differ.
fn server(first: &str) -> String {
    SERVER.replace("\"0102", &format!("\"{first}02"))
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn conf(&self, text: &str) -> PathBuf {
        let file = self.path("conf");
        write(&file, text, 0o600);
        file
    }

    fn error(&self, text: &str) -> String {
        let file = self.conf(text);
        let error = Keeper::open(&file).map(|_| ()).expect_err("it is wrong").to_string();
        let file = fs::canonicalize(file).expect("it is there");
        error.strip_prefix(&file.display().to_string()).expect("its name").to_owned()
    }
}

#[test]
fn a_libcoap_configuration_is_parsed() {
    let place = Place::new();
    let keeper = Keeper::open(place.conf(SERVER)).expect("it is right");
    let credentials = keeper.credentials();
    assert_eq!(credentials.master_secret.as_slice(), (1..=16).collect::<Vec<u8>>());
    assert_eq!(credentials.master_salt, [0x9e, 0x7c, 0xa9, 0x22, 0x23, 0x78, 0x63, 0x40]);
    assert_eq!(
        (credentials.sender_id.as_slice(), credentials.recipient_id.as_slice()),
        (&b"server"[..], &b"client"[..])
    );
    assert_eq!((&credentials.id_context, credentials.replay_window), (&None, 48));

    let named = "master_secret,ascii,16 random bytes.\nsender_id,hex,00\nrecipient_id,hex,\"\"\n\
                 id_context,hex,\"37cb\"\naead_alg,text,\"AES-CCM-16-128-256\"\nhkdf_alg,text,direct+HKDF-SHA-512\n\
                 rfc8613_b_1_2,bool,true\nrfc8613_b_2,bool,false\nssn_freq,integer,5\n";
    let file = place.path("named");
    write(&file, named, 0o600);
    let keeper = Keeper::open(&file).expect("it is right");
    let credentials = keeper.credentials();
    assert_eq!((credentials.recipient_id.as_slice(), credentials.replay_window), (&b""[..], 1024));
    assert_eq!((credentials.aead, credentials.hkdf), (Aead::AesCcm16_128_256, Hkdf::Sha512));
    assert_eq!(credentials.id_context.as_deref(), Some(&[0x37, 0xcb][..]));
}

#[test]
fn configuration_errors_name_the_line() {
    let place = Place::new();
    let cases = [
        ("\n#\nmaster_secret", ":3: a line is keyword,encoding,value"),
        ("master_secret,hex,\"012\"", ":1: the value must be an even number of hexadecimal digits"),
        ("master_secret,integer,7", ":1: the encoding is integer: hex or ascii is right here"),
        ("sender_id,ascii,12345678", ":1: an ID of 8 bytes: 7 at most"),
        ("sender_id,ascii,a\nsender_id,ascii,b", ":2: sender_id was given before"),
        ("replay_window,integer,0", ":1: replay_window must be 1 to 1024"),
        ("replay_window,integer,1025", ":1: replay_window must be 1 to 1024"),
        ("aead_alg,integer,1", ":1: the algorithm 1 is not supported"),
        ("aead_alg,text,A128GCM", ":1: the algorithm A128GCM is not supported"),
        (
            "recipient_id,ascii,a\nrecipient_id,ascii,b",
            ":2: recipient_id was given before: several recipients would share the key of this end, and its numbers; give each a file with another sender_id or id_context",
        ),
        ("complex_recipient,config,'", ":1: complex_recipient is not supported"),
        ("sender_id,ascii,a", ": there is no master_secret"),
        ("master_secret,ascii,a\nsender_id,ascii,a", ": there is no recipient_id"),
    ];
    for (text, expected) in cases {
        assert_eq!(place.error(text), expected, "{text:?}");
    }
    let same = place.error(&SERVER.replace("\"client\"", "\"server\""));
    assert!(same.contains("sender ID and recipient ID are the same"), "{same}");
}

#[test]
fn keys_that_are_agreed_on_anew_keep_nothing() {
    let place = Place::new();
    let file = place.conf(&format!("{}rfc8613_b_2,bool,true\n", server("a1")));
    for _ in 0..2 {
        let mut keeper = Keeper::open(&file).expect("it is right");
        let context = keeper.start().expect("nothing is written");
        assert!(context.is_renewed());
        keeper.reserve(256).expect("nothing is written");
        assert!(!keeper.file.exists());
        assert!(keeper.start().is_err(), "there is one");
        keeper.close(&context).expect("nothing is written");
    }
    assert!(!place.path("conf.sequence.json").exists());
}

#[test]
fn reserving_numbers_invalidates_the_state_of_an_orderly_shutdown() {
    let place = Place::new();
    let file = place.conf(&server("a2"));
    let mut keeper = Keeper::open(&file).expect("it is right");
    let context = keeper.start().expect("it can be written");
    keeper.close(&context).expect("it can be written");
    let keeper = Keeper::open(&file).expect("it is right");
    assert_eq!(keeper.load().expect("it can be read"), Start::First, "nothing was used");
    keeper.reserve(256).expect("it can be written");
    assert_eq!(keeper.load().expect("it can be read"), Start::Restarted { next: 256 });
}

fn directory(place: &Place, name: &str, settings: &str, secret: &str) -> PathBuf {
    let directory = place.path(name);
    fs::create_dir(&directory).expect("it is new");
    write(&directory.join("settings.json"), settings, 0o644);
    write(&directory.join("secret.json"), secret, 0o600);
    directory
}

const SETTINGS: &str = r#"{"sender-id_hex": "01", "recipient-id_ascii": "server", "salt_hex": "9e7c", "window": 40,
    "algorithm": "AES-CCM-16-64-128", "kdf-hashfun": "sha256"}"#;

#[test]
fn an_aiocoap_directory_is_parsed() {
    let place = Place::new();
    let keeper = Keeper::open(directory(&place, "client", SETTINGS, r#"{"secret_ascii": "16 random bytes."}"#))
        .expect("it is right");
    let credentials = keeper.credentials();
    assert_eq!(credentials.master_secret.as_slice(), b"16 random bytes.");
    assert_eq!((credentials.sender_id.as_slice(), credentials.recipient_id.as_slice()), (&[1][..], &b"server"[..]));
    assert_eq!((&credentials.master_salt[..], credentials.replay_window), (&[0x9e, 0x7c][..], 40));
    for wrong in ["0", "1025", "-1", "\"32\""] {
        let settings = SETTINGS.replace("40", wrong);
        let path = directory(
            &place,
            &format!("window{wrong}").replace('"', ""),
            &settings,
            r#"{"secret_ascii": "16 random bytes."}"#,
        );
        let error = Keeper::open(path).map(|_| ()).expect_err("no window has this size").to_string();
        assert!(error.ends_with("window must be 1 to 1024"), "{error}");
    }

    let twice = directory(&place, "twice", SETTINGS, r#"{"secret_hex": "00", "salt_ascii": ""}"#);
    let error = Keeper::open(&twice).map(|_| ()).expect_err("it is wrong").to_string();
    assert!(error.ends_with("salt is there twice"), "{error}");
    let broken = directory(&place, "broken", SETTINGS, "{\n\"secret_hex\"");
    let error = Keeper::open(&broken).map(|_| ()).expect_err("it is wrong").to_string();
    assert!(error.contains("secret.json:2: "), "{error}");
}

#[test]
fn a_credentials_map_assigns_directories_to_uris() {
    let place = Place::new();
    let text = r#"{"coap://h/*": {"oscore": {"basedir": "client/"}}, ":phone": {"oscore": {"basedir": "/phone"}},
        "coap://g/*": ":phone", "coaps://h/*": {"dtls": {"psk": {"ascii": "x"}}}}"#;
    let file = place.path("map.json");
    write(&file, text, 0o644);
    let mut references = read_map(&file).expect("it is right");
    references.sort_by(|one, other| one.key.cmp(&other.key));
    let expected =
        [(":phone", PathBuf::from("/phone")), ("coap://g/*", "/phone".into()), ("coap://h/*", place.path("client/"))];
    let expected = expected.map(|(key, directory)| Reference { key: key.to_owned(), directory });
    assert_eq!(references, expected);
    write(&file, r#"{"coap://h/*": ":nobody"}"#, 0o644);
    assert!(read_map(&file).expect_err("it is wrong").to_string().ends_with("there is no :nobody"));
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let file = place.conf(SERVER);
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        let error = Keeper::open(&file).map(|_| ()).expect_err("it is exposed").to_string();
        assert!(error.ends_with(&format!("chmod 600 {}", file.display())), "{error}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).expect("it is ours");
    assert!(Keeper::open(&file).is_ok());

    let exposed = directory(&place, "exposed", &SETTINGS.replace('{', r#"{"secret_ascii": "x", "#), "{}");
    let error = Keeper::open(&exposed).map(|_| ()).expect_err("settings.json has the secret").to_string();
    assert!(error.contains("chmod 600") && error.contains("settings.json"), "{error}");
}

#[test]
fn credentials_are_used_by_one_program_at_a_time() {
    let place = Place::new();
    let file = place.conf(SERVER);
    let first = Keeper::open(&file).expect("it is right");
    assert!(matches!(Keeper::open(&file), Err(OpenError::InUse { .. })));
    drop(first);
    assert!(Keeper::open(&file).is_ok());
}

#[test]
fn copies_of_credentials_do_not_protect_with_the_same_numbers() {
    let place = Place::new();
    let file = place.conf(&server("a3"));
    let copy = file.with_extension("copy");
    fs::copy(&file, &copy).expect("there is room");
    let [mut first, mut second] = [&file, &copy].map(|file| Keeper::open(file).expect("it is right"));
    let context = first.start().expect("it can be written");
    assert!(matches!(second.start(), Err(OpenError::SameSender { .. })));
    first.close(&context).expect("it can be written");
    drop(second);
    assert!(Keeper::open(&copy).and_then(|mut keeper| keeper.start()).is_ok(), "there is no other one any more");
}

fn request(contexts: &mut Contexts, id: conche_proto::oscore::ContextId) -> OwnedMessage {
    let sent = contexts.protect_request(id, Code::GET, &Body::EMPTY).expect("a number is reserved");
    OwnedMessage::encode(Type::Confirmable, sent.code, MessageId(1), &Token::EMPTY, &sent.body).expect("legal")
}

fn contexts(keeper: &mut Keeper) -> (Contexts, conche_proto::oscore::ContextId) {
    let mut contexts = Contexts::new(1, [7; 32]);
    let id = contexts.insert(keeper.start().expect("it can be written")).expect("room");
    let reserve = contexts.poll_reserve().expect("there are no numbers yet");
    keeper.reserve(reserve.up_to).expect("it can be written");
    contexts.reserved(reserve);
    (contexts, id)
}

#[test]
fn programs_that_open_new_credentials_at_once_never_set_numbers_back() {
    for round in 0..100 {
        let place = Place::new();
        let file = place.conf(&SERVER.replace("\"server\"", &format!("\"s{round}\"")));
        let start = std::sync::Barrier::new(4);
        let begin = || {
            start.wait();
            let mut keeper = Keeper::open(&file).ok()?;
            keeper.start().ok()?;
            Some(keeper)
        };
        let begun: Vec<Keeper> = std::thread::scope(|scope| {
            let programs: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
            programs.into_iter().filter_map(|program| program.join().expect("no panic")).collect()
        });
        let [keeper] = &begun[..] else { panic!("{} programs use the credentials", begun.len()) };
        let kept = fs::read(&keeper.file).expect("it is there");
        assert_ne!(kept, sequence::UNUSED.as_bytes(), "round {round}");
    }
}

#[test]
fn a_lock_without_numbers_that_another_program_left_refuses_no_credentials() {
    let place = Place::new();
    let file = place.conf(&server("a5"));
    // Left by a program that ended between the two files, or lost the race for the lock.
    write(&place.path("conf.lock"), "", 0o600);
    let mut keeper = Keeper::open(&file).expect("nothing is lost");
    assert_eq!(keeper.begin().expect("they were not used"), Start::First);
}

#[cfg(unix)]
#[test]
fn numbers_that_are_lost_or_behind_a_link_are_not_begun_anew() {
    let place = Place::new();
    let file = place.conf(&server("a4"));
    let mut keeper = Keeper::open(&file).expect("it is right");
    keeper.start().expect("it can be written");
    let link = place.path("link");
    std::os::unix::fs::symlink(&file, &link).expect("it is new");
    assert!(matches!(Keeper::open(&link), Err(OpenError::InUse { .. })));
    keeper.reserve(7).expect("it can be written");
    drop(keeper);
    let mut keeper = Keeper::open(&link).expect("it is right");
    assert_eq!(keeper.start().expect("it can be written").next_number(), 7);
    for lost in ["", "{", "{}", "7"] {
        write(&keeper.file, lost, 0o600);
        drop(keeper);
        keeper = Keeper::open(&link).expect("it is right");
        assert!(matches!(keeper.start(), Err(OpenError::Wrong { .. })), "{lost:?}");
    }
}

// RFC 8613 appendix B.1
#[test]
fn no_number_comes_again_and_no_request_is_taken_again_after_a_restart() {
    let place = Place::new();
    let server = place.conf(SERVER);
    let client = directory(
        &place,
        "client",
        r#"{"sender-id_ascii": "client", "recipient-id_ascii": "server", "salt_hex": "9e7ca92223786340"}"#,
        r#"{"secret_hex": "0102030405060708090a0b0c0d0e0f10"}"#,
    );
    let pool = &mut MessagePool::new();
    let mut client = Keeper::open(&client).expect("it is right");
    let (mut asking, from) = contexts(&mut client);
    let old: Vec<_> = (0..40).map(|_| request(&mut asking, from)).collect();

    let mut keeper = Keeper::open(&server).expect("it is right");
    let (mut serving, id) = contexts(&mut keeper);
    for request in &old[..38] {
        serving.unprotect_request(Instant::ZERO, &request.view(), pool).expect("authentic");
    }
    // An orderly end: the received window is known, and delayed requests are still accepted.
    keeper.close(serving.get(id).expect("it is there")).expect("it can be written");
    let mut keeper = Keeper::open(&server).expect("it is right");
    let (mut serving, id) = contexts(&mut keeper);
    assert_eq!(serving.get(id).expect("it is there").next_number(), 0);
    let mut take = |request: &OwnedMessage| serving.unprotect_request(Instant::ZERO, &request.view(), pool).err();
    assert!(old[..38].iter().all(|request| take(request) == Some(Refused::Replayed)));
    assert_eq!(take(&old[39]), None);
    assert_eq!(take(&old[38]), None);

    // A power cut: only the reservation is known.
    drop(keeper);
    let mut keeper = Keeper::open(&server).expect("it is right");
    let (mut serving, id) = contexts(&mut keeper);
    assert_eq!(serving.get(id).expect("it is there").next_number(), 256);
    let mut take = |request: &OwnedMessage| serving.unprotect_request(Instant::ZERO, &request.view(), pool).err();
    assert!(old.iter().all(|request| matches!(take(request), Some(Refused::NotFresh(_)))));
    drop((client, asking));
    let mut client = Keeper::open(place.path("client")).expect("it is right");
    assert_eq!(client.start().expect("it can be written").next_number(), 256);
    assert!(matches!(client.start(), Err(OpenError::InUse { .. })), "two contexts would use the same numbers");
}

#[test]
fn replay_windows_round_trip_in_the_format_of_aiocoap() {
    let file = Path::new("sequence.json");
    let read = |text: &str| sequence::parse(file, text.as_bytes());
    assert_eq!(read(sequence::UNUSED).ok(), Some(Start::First));
    assert!(read("").is_err());
    assert_eq!(read(r#"{"next-to-send": 7, "received": "unknown"}"#).ok(), Some(Start::Restarted { next: 7 }));
    // Numbers up to 9, and 10 and 12, were received.
    let text = r#"{"next-to-send": 7, "received": {"index": 10, "bitfield": 5}}"#;
    let Ok(Start::Resumed { next: 7, window }) = read(text) else { panic!("{:?}", read(text)) };
    let new: Vec<_> = (0..16).filter(|number| window.is_new(*number)).collect();
    assert_eq!(new, [11, 13, 14, 15]);
    for wrong in
        ["[]", "{", r#"{"next-to-send": -1}"#, r#"{"next-to-send": 1}"#, r#"{"next-to-send": 1, "received": 7}"#]
    {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let place = Place::new();
    let credentials = Keeper::open(place.conf(SERVER)).expect("it is right").credentials().clone();
    for came in [vec![], vec![0], vec![3, 1], vec![31], vec![32, 5], vec![100, 99, 70]] {
        let mut window = ReplayWindow::EMPTY;
        came.iter().for_each(|number| window.insert(*number));
        let context = Context::derive(&credentials, Start::Resumed { next: 9, window }).expect("legal");
        let Ok(Start::Resumed { next: 9, window: again }) =
            read(&sequence::at_rest(context.next_number(), context.window()))
        else {
            panic!("{came:?}")
        };
        assert!((0..200).all(|number| again.is_new(number) == window.is_new(number)), "{came:?}");
    }
}

#[cfg(unix)]
mod access {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    fn error(path: &Path) -> OpenError {
        Keeper::open(path).map(drop).expect_err("it is not safe")
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn credentials_whose_numbers_are_lost_are_refused() {
        let place = Place::new();
        let of_aiocoap = directory(&place, "client", SETTINGS, r#"{"secret_ascii": "32 random bytes."}"#);
        let of_libcoap = place.conf(&server("a0"));
        for (path, numbers) in
            [(&of_aiocoap, of_aiocoap.join("sequence.json")), (&of_libcoap, place.path("conf.sequence.json"))]
        {
            // Opened without use: nothing is lost.
            drop(Keeper::open(path).expect("they are new"));
            let mut keeper = Keeper::open(path).expect("they were not used");
            assert_eq!(keeper.begin().expect("they were not used"), Start::First);
            keeper.reserve(256).expect("it can be written");
            drop(keeper);
            fs::remove_file(&numbers).expect("it was written");
            let error = error(path);
            assert!(matches!(error, OpenError::LostNumbers { .. }), "{error}");
            assert!(error.to_string().contains("if these were certainly never used, remove"), "{error}");
        }
    }

    #[test]
    fn files_that_other_users_may_write_are_refused() {
        let place = Place::new();
        let path = directory(&place, "client", SETTINGS, r#"{"secret_ascii": "33 random bytes."}"#);
        drop(Keeper::open(&path).expect("nobody else may write"));
        for (name, safe) in [("", 0o755), ("sequence.json", 0o644), ("lock", 0o644)] {
            let file = if name.is_empty() { path.clone() } else { path.join(name) };
            for mode in [0o020, 0o002] {
                chmod(&file, safe | mode);
                let error = error(&path);
                assert!(matches!(&error, OpenError::Writable { .. }), "{name:?}: {error}");
            }
            chmod(&file, safe);
            drop(Keeper::open(&path).expect("nobody else may write"));
        }
        chmod(&path, 0o1777);
        drop(Keeper::open(&path).expect("others may not replace files there"));
    }

    #[test]
    fn files_of_other_users_are_refused() {
        let place = Place::new();
        let path = directory(&place, "client", SETTINGS, r#"{"secret_ascii": "34 random bytes."}"#);
        drop(Keeper::open(&path).expect("all is ours"));
        for name in ["", "secret.json", "sequence.json", "lock"] {
            let file = if name.is_empty() { path.clone() } else { path.join(name) };
            // Only root may change a file's owner.
            if chown(&file, Some(12_345), None).is_err() {
                return;
            }
            let error = error(&path);
            assert!(matches!(&error, OpenError::OtherOwner { .. }), "{name:?}: {error}");
            chown(&file, Some(0), None).expect("we are root");
        }
        drop(Keeper::open(&path).expect("all is ours again"));
    }

    #[test]
    fn a_secret_with_a_second_name_is_refused() {
        let place = Place::new();
        let path = place.conf(&server("a1"));
        let second = place.path("second");
        fs::hard_link(&path, &second).expect("one file system");
        for path in [&path, &second] {
            let error = error(path);
            assert!(matches!(&error, OpenError::Linked { names: 2, .. }), "{error}");
        }
        fs::remove_file(&second).expect("it is there");
        drop(Keeper::open(&path).expect("it has one name"));
    }
}
