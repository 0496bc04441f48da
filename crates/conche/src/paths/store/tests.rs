//! Reading and writing of a path store, and the files that it leaves alone.

use std::fs;

use proptest::prelude::*;

use super::*;

const MAX_PATHS: usize = 16;

fn instant(seconds: u64) -> Instant {
    Instant::from_millis(100_000_000 + seconds * 1_000)
}

fn key(host: u8) -> PathKey {
    PathKey::new(0xffff_c000_0200 | u128::from(host), 128)
}

fn group(heard: Instant, srtt: u64) -> PathHistory {
    PathHistory::remembered(heard, Duration::from_millis(srtt), Duration::from_millis(srtt))
}

async fn keep(file: &Path, hosts: impl IntoIterator<Item = u8>) {
    let store = PathStore::new(file.to_owned());
    store.recall(instant(0), MAX_PATHS).await;
    learn(&store, hosts);
    store.write(MAX_PATHS).await.expect("it does not panic");
}

fn learn(store: &PathStore, hosts: impl IntoIterator<Item = u8>) {
    let now = instant(0);
    let groups: Vec<_> =
        hosts.into_iter().map(|host| (key(host), group(now - Duration::from_secs(host.into()), 40))).collect();
    store.learn(now, groups.iter().map(|(key, group)| (*key, group)));
}

async fn recall(file: &Path) -> Vec<(PathKey, PathHistory)> {
    let mut known = PathStore::new(file.to_owned()).recall(instant(0), MAX_PATHS).await;
    known.sort_unstable_by_key(|(key, _)| *key);
    known
}

async fn recalled_hosts(file: &Path) -> Vec<u8> {
    recall(file).await.iter().map(|(key, _)| (key.prefix() & 0xff) as u8).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

#[tokio::test]
async fn stored_paths_are_restored_with_their_age() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    keep(&file, [0, 60]).await;
    let known = recall(&file).await;
    assert_eq!(known.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [key(0), key(60)]);
    for (_, group) in &known {
        let (srtt, _) = group.learnt().expect("it was measured");
        assert_eq!(srtt, Duration::from_millis(40));
    }
    let age = known[0].1.heard() - known[1].1.heard();
    assert!(age >= Duration::from_secs(59) && age <= Duration::from_secs(61), "{age:?}");
}

#[tokio::test]
async fn a_file_is_replaced_without_a_trace_and_is_for_its_owner_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    keep(&file, [1]).await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    }
    keep(&file, [2]).await;
    assert_eq!(names(directory.path()), ["paths"]);
    assert_eq!(recalled_hosts(&file).await, [1, 2]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_foreign_or_newer_path_file_is_left_unchanged() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    for text in ["root:x:0:0\n".to_owned(), "conche paths 2\nanything\n".to_owned(), "x".repeat(1 << 20)] {
        fs::write(&file, &text).expect("it is written");
        assert_eq!(recall(&file).await, []);
        keep(&file, [1]).await;
        assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
        assert_eq!(names(directory.path()), ["paths"]);
    }
}

#[tokio::test]
async fn a_file_overwritten_by_another_program_is_kept_until_it_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let store = PathStore::new(file.clone());
    store.recall(instant(0), MAX_PATHS).await;
    fs::write(&file, "a letter").expect("it is written");
    learn(&store, [1]);
    store.write(MAX_PATHS).await.expect("it does not panic");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "a letter");
    fs::remove_file(&file).expect("it is there");
    store.write(MAX_PATHS).await.expect("it does not panic");
    assert_eq!(recalled_hosts(&file).await, [1], "nothing was lost meanwhile");
}

#[tokio::test]
async fn an_empty_file_is_as_good_as_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    fs::write(&file, "").expect("it is written");
    keep(&file, [1]).await;
    assert_eq!(recalled_hosts(&file).await, [1]);
}

#[tokio::test]
async fn directories_and_invalid_paths_are_neither_read_nor_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).expect("a directory");
    for file in [inner.clone(), inner.join("none").join("paths"), PathBuf::from("/"), PathBuf::new()] {
        keep(&file, [1]).await;
        assert_eq!(recall(&file).await, []);
    }
    assert_eq!(names(directory.path()), ["inner"]);
    assert_eq!(names(&inner), [""; 0]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_or_a_device_as_path_file_does_not_block() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("paths");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket has a name");
    keep(&socket, [1]).await;
    assert_eq!(recall(&socket).await, []);
    keep(Path::new("/dev/zero"), [1]).await;
    assert_eq!(recall(Path::new("/dev/zero")).await, []);
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_is_replaced_and_its_target_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, link) = (directory.path().join("paths"), directory.path().join("link"));
    keep(&file, [1]).await;
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    keep(&link, [2]).await;
    assert_eq!(recalled_hosts(&link).await, [1, 2]);
    assert_eq!(recalled_hosts(&file).await, [1]);
}

#[tokio::test]
async fn lines_that_are_not_right_are_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    keep(&file, [1]).await;
    let mut bytes = fs::read(&file).expect("it is there");
    bytes.extend(b"\xff\xfe\n192.0.2.9/32 heard=99999999999s srtt=1us rttvar=1us\n192.0.2.8/32 hea");
    fs::write(&file, &bytes).expect("it is written");
    assert_eq!(recalled_hosts(&file).await, [1]);
}

#[tokio::test]
async fn of_a_huge_file_the_beginning_is_read_which_has_the_youngest() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    keep(&file, [3, 1]).await;
    let mut bytes = fs::read(&file).expect("it is there");
    bytes.extend(b"192.0.2.9/32 ".repeat(1 << 16));
    fs::write(&file, &bytes).expect("it is written");
    assert_eq!(recalled_hosts(&file).await, [1, 3]);
}

#[tokio::test]
async fn the_newest_paths_are_stored_and_expired_ones_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    keep(&file, 0..40).await;
    assert_eq!(recalled_hosts(&file).await, (0..16).collect::<Vec<_>>());
    let store = PathStore::new(file.clone());
    let (now, day) = (instant(0), PathHistory::KEPT + Duration::from_secs(2));
    fs::remove_file(&file).expect("it is there");
    store.learn(now, [(key(1), &group(now - day, 40))].into_iter());
    store.write(MAX_PATHS).await.expect("it does not panic");
    assert_eq!(recall(&file).await, []);
}

#[tokio::test]
async fn a_path_that_is_forgotten_is_not_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let store = PathStore::new(file.clone());
    learn(&store, [1, 2]);
    store.write(MAX_PATHS).await.expect("it does not panic");
    store.forget(key(1));
    store.write(MAX_PATHS).await.expect("it does not panic");
    assert_eq!(recalled_hosts(&file).await, [2]);
}

#[tokio::test]
async fn without_anything_new_nothing_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    keep(&file, [1]).await;
    let store = PathStore::new(file.clone());
    store.recall(instant(0), MAX_PATHS).await;
    fs::remove_file(&file).expect("it is there");
    store.write(MAX_PATHS).await.expect("it does not panic");
    assert_eq!(names(directory.path()), [""; 0]);
}

#[tokio::test]
async fn of_two_that_write_the_same_file_at_once_each_leaves_it_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paths");
    let stores: Vec<_> = (0..8).map(|_| PathStore::new(file.clone())).collect();
    for round in 0..10 {
        let mut writing = Vec::new();
        for (host, store) in (8 * round..).zip(&stores) {
            learn(store, [host]);
            writing.push(store.write(MAX_PATHS));
        }
        assert!(read(&file, MAX_PATHS).is_ok_and(|read| read.wrong == 0));
        for writing in writing {
            writing.await.expect("it does not panic");
        }
    }
    assert_eq!(names(directory.path()), ["paths"]);
}

const NOW: u64 = 1_795_383_439;

fn learnt(heard: u64) -> StoredPath {
    StoredPath { heard, srtt: Duration::from_millis(48), rttvar: Duration::from_millis(3) }
}

fn line(prefix: &str, heard: u64) -> String {
    let key = key_of(prefix.parse().expect("a prefix"));
    format_paths(&[(key, learnt(heard))]).lines().last().expect("a line").to_owned()
}

fn parse_lines(lines: &[&str]) -> ParsedFile {
    parse(format!("{FIRST_LINE}\n{}", lines.join("\n")).as_bytes(), NOW, 10).expect("it is ours")
}

#[test]
fn the_first_line_is_that_of_its_version() {
    assert_eq!(FIRST_LINE, format!("{NAME}{VERSION}"));
    assert!(FIRST_LINE.len() < HEAD_BYTES);
}

#[test]
fn a_line_is_readable() {
    assert_eq!(line("192.0.2.7/32", NOW), "192.0.2.7/32 heard=1795383439s srtt=48000us rttvar=3000us");
}

#[test]
fn a_line_with_the_retransmissions_of_an_earlier_conche_is_read() {
    let read = parse_lines(&[&format!("{} copies=20/32", line("192.0.2.7/32", NOW))]);
    let expected = (key_of("192.0.2.7/32".parse().expect("a prefix")), learnt(NOW));
    assert_eq!(read, ParsedFile { paths: vec![expected], wrong: 0 });
}

#[test]
fn foreign_files_and_other_versions_give_different_errors() {
    assert_eq!(parse(b"root:x:0:0\n", NOW, 10), Err(Unknown::Foreign));
    assert_eq!(parse(b"", NOW, 10), Err(Unknown::Foreign));
    assert_eq!(parse(b"conche paths\n", NOW, 10), Err(Unknown::Foreign));
    assert_eq!(parse(b"conche paths 2\nanything", NOW, 10), Err(Unknown::Version(2)));
}

#[test]
fn a_line_that_is_not_right_is_left_out_and_the_others_are_read() {
    let good = line("192.0.2.7/32", NOW);
    let wrong = [
        "192.0.2.7",
        "192.0.2.7/33 heard=1s srtt=1us rttvar=1us",
        &line("192.0.2.7/32", NOW).replace("us", "ms"),
        &line("192.0.2.7/32", NOW).replace("48000", "4294967296"),
        &line("192.0.2.7/32", NOW).replace("48000", "-1"),
        &format!("{} more", line("192.0.2.7/32", NOW)),
        &format!("{} copies=2/32 more", line("192.0.2.7/32", NOW)),
        &line("fe80::/64", NOW),
        "\u{fffd}",
    ];
    for wrong in wrong {
        let read = parse_lines(&[wrong, &good]);
        assert_eq!((read.paths.len(), read.wrong), (1, 1), "{wrong}");
    }
    assert_eq!(parse_lines(&["", "# anything", &good]).wrong, 0);
}

#[test]
fn paths_older_than_a_day_or_in_the_future_are_not_read() {
    let day = PathHistory::KEPT.as_secs();
    let read = |heard| parse_lines(&[&line("192.0.2.7/32", heard)]);
    assert_eq!((read(NOW - day).paths.len(), read(NOW).paths.len()), (1, 1));
    assert_eq!(read(NOW - day - 1), ParsedFile::default());
    assert_eq!(read(NOW + 1), ParsedFile { paths: vec![], wrong: 1 });
}

#[test]
fn no_more_paths_are_read_than_there_is_room_for() {
    let lines: Vec<_> = (0..20).map(|host| line(&format!("192.0.2.{host}/32"), NOW)).collect();
    let read = parse_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(read.paths.len(), 10);
}

#[test]
fn the_longest_file_fits_the_read_limit() {
    let key = PathKey::new(u128::MAX, 128);
    let micros = Duration::from_micros(u32::MAX.into());
    let stored = StoredPath { heard: u64::MAX, srtt: micros, rttvar: micros };
    assert!(format_paths(&[(key, stored); 100]).len() <= most_bytes(100));
}

prop_compose! {
    fn any_stored()(heard in NOW - 86_400..=NOW, srtt: u32, rttvar: u32) -> StoredPath {
        let micros = |count: u32| Duration::from_micros(count.into());
        StoredPath { heard, srtt: micros(srtt), rttvar: micros(rttvar) }
    }
}

prop_compose! {
    fn any_path()(v4: bool, bits: u128, length in 1u8..=128, stored in any_stored()) -> (PathKey, StoredPath) {
        let mapped = 0xffff << 32 | bits & u128::from(u32::MAX);
        (if v4 { PathKey::new(mapped, 96 + length / 4) } else { PathKey::new(bits, length) }, stored)
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(text: Vec<u8>, ours: bool) {
        let text = if ours { [format!("{FIRST_LINE}\n").as_bytes(), &text].concat() } else { text };
        prop_assert_eq!(parse(&text, NOW, 10).is_ok(), ours);
    }

    #[test]
    fn malformed_path_lines_are_read_without_a_panic(
        lines in "(([0-9a-f:.]{0,12}/[0-9]{1,3}|::/0) heard=[0-9]{0,21}s? srtt=[0-9-]{0,11}us rttvar=[0-9]{0,11}us( copies=[0-9]{0,4}/32)?\n){0,4}"
    ) {
        let count = lines.lines().count();
        let read = parse(format!("{FIRST_LINE}\n{lines}").as_bytes(), NOW, 10).expect("it is ours");
        prop_assert!(read.paths.len() + read.wrong <= count);
    }

    #[test]
    fn written_paths_are_read_back(paths in proptest::collection::vec(any_path(), 0..10)) {
        let paths: Vec<_> = paths.into_iter().filter(|(key, _)| !is_link_local(*key)).collect();
        let read = parse(format_paths(&paths).as_bytes(), NOW, 10).expect("it is ours");
        prop_assert_eq!(read, ParsedFile { paths, wrong: 0 });
    }
}
