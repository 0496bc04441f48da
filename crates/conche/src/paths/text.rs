//! Text format of path state: the file of a [`PathStore`](super::PathStore).
//!
//! ```text
//! conche paths 1
//! # path, when it was last heard of (since 1970), ...
//! 192.0.2.7/32 heard=1795383439s srtt=48211us rttvar=3120us copies=2/32
//! 2001:db8:0:1::/64 heard=1795383002s srtt=512004us rttvar=80113us copies=17/32
//! ```
//!
//! The first line holds the format's name and version. Each further line stands alone: an invalid
//! line, such as one with a time in the future, is skipped, and the others are read.

use std::fmt::Write as _;
use std::time::Duration;

use conche_proto::PathKey;
use conche_proto::cc::path_history::PathHistory;
use thiserror::Error;

use super::sharing::{is_link_local, key_of, prefix_of};

/// Stored state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredPath {
    /// Time of the last update, in seconds since 1970.
    pub(super) heard: u64,
    pub(super) srtt: Duration,
    pub(super) rttvar: Duration,
    /// Mean number of retransmissions, in units of 1/32.
    pub(super) copies: u8,
}

impl StoredPath {
    /// Returns its age, or `None` if it is in the future or expired.
    pub(super) fn age(&self, now: u64) -> Option<Duration> {
        let age = Duration::from_secs(now.checked_sub(self.heard)?);
        (age <= PathHistory::KEPT).then_some(age)
    }
}

/// Why a text is not in this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Unknown {
    #[error("it does not begin with `{FIRST_LINE}`")]
    Foreign,
    #[error("it is of version {0}, and only version {VERSION} is understood")]
    Version(u32),
}

/// The content of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// In the order of the text.
    pub(super) paths: Vec<(PathKey, StoredPath)>,
    /// Number of invalid lines. Expired ones are not counted.
    pub(super) wrong: usize,
}

const NAME: &str = "conche paths ";
const VERSION: u32 = 1;
const FIRST_LINE: &str = "conche paths 1";
const LEGEND: &str =
    "# path, when it was last heard of (since 1970), smoothed round-trip time, its variation, copies beyond the first";

/// The first line fits in this number of bytes.
pub(super) const HEAD_BYTES: usize = 64;
/// Maximum bytes of a path's line.
const LINE_BYTES: usize = 128;

/// Returns the maximum bytes of a text of this number of paths.
pub(super) fn most_bytes(paths: usize) -> usize {
    LINE_BYTES.saturating_mul(paths).saturating_add(FIRST_LINE.len() + LEGEND.len() + 2)
}

/// Checks the first line of a text.
pub(super) fn recognise(text: &[u8]) -> Result<(), Unknown> {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let version = first.strip_prefix(NAME.as_bytes()).and_then(|version| str::from_utf8(version).ok()?.parse().ok());
    match version {
        Some(VERSION) => Ok(()),
        Some(version) => Err(Unknown::Version(version)),
        None => Err(Unknown::Foreign),
    }
}

/// Parses a text. `now` is in seconds since 1970; at most `most` paths are read.
pub(super) fn parse(text: &[u8], now: u64, most: usize) -> Result<Read, Unknown> {
    recognise(text)?;
    let mut read = Read::default();
    for line in text.split(|byte| *byte == b'\n').skip(1) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match str::from_utf8(line).ok().and_then(parse_line).filter(|(_, stored)| stored.heard <= now) {
            Some((_, stored)) if stored.age(now).is_none() => {}
            Some(path) if read.paths.len() < most => read.paths.push(path),
            Some(_) => break,
            None => read.wrong += 1,
        }
    }
    Ok(read)
}

fn parse_line(line: &str) -> Option<(PathKey, StoredPath)> {
    let mut words = line.split(' ');
    let key = key_of(words.next()?.parse().ok()?);
    let mut value = |name: &str, unit: &str| words.next()?.strip_prefix(name)?.strip_suffix(unit);
    let heard = value("heard=", "s")?.parse().ok()?;
    let srtt: u32 = value("srtt=", "us")?.parse().ok()?;
    let rttvar: u32 = value("rttvar=", "us")?.parse().ok()?;
    let copies = value("copies=", "/32")?.parse().ok()?;
    let micros = |count: u32| Duration::from_micros(count.into());
    let stored = StoredPath { heard, srtt: micros(srtt), rttvar: micros(rttvar), copies };
    (words.next().is_none() && !is_link_local(key)).then_some((key, stored))
}

/// Formats the state of these paths.
pub(super) fn write(paths: &[(PathKey, StoredPath)]) -> String {
    let mut text = format!("{FIRST_LINE}\n{LEGEND}\n");
    for (key, StoredPath { heard, srtt, rttvar, copies }) in paths {
        let Some(prefix) = prefix_of(*key) else { continue };
        let (srtt, rttvar) = (srtt.as_micros(), rttvar.as_micros());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{prefix} heard={heard}s srtt={srtt}us rttvar={rttvar}us copies={copies}/32");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_795_383_439;

    fn learnt(heard: u64) -> StoredPath {
        StoredPath { heard, srtt: Duration::from_millis(48), rttvar: Duration::from_millis(3), copies: 2 }
    }

    fn line(prefix: &str, heard: u64) -> String {
        let key = key_of(prefix.parse().expect("a prefix"));
        write(&[(key, learnt(heard))]).lines().last().expect("a line").to_owned()
    }

    fn parse_lines(lines: &[&str]) -> Read {
        parse(format!("{FIRST_LINE}\n{}", lines.join("\n")).as_bytes(), NOW, 10).expect("it is ours")
    }

    #[test]
    fn the_first_line_is_that_of_its_version() {
        assert_eq!(FIRST_LINE, format!("{NAME}{VERSION}"));
        assert!(FIRST_LINE.len() < HEAD_BYTES);
    }

    #[test]
    fn a_line_is_readable() {
        assert_eq!(line("192.0.2.7/32", NOW), "192.0.2.7/32 heard=1795383439s srtt=48000us rttvar=3000us copies=2/32");
    }

    #[test]
    fn what_is_not_ours_and_what_is_of_another_version_is_told_apart() {
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
            "192.0.2.7/33 heard=1s srtt=1us rttvar=1us copies=0/32",
            &line("192.0.2.7/32", NOW).replace("us", "ms"),
            &line("192.0.2.7/32", NOW).replace("48000", "4294967296"),
            &line("192.0.2.7/32", NOW).replace("48000", "-1"),
            &format!("{} more", line("192.0.2.7/32", NOW)),
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
    fn what_is_a_day_old_is_read_and_what_is_older_or_of_the_future_is_not() {
        let day = PathHistory::KEPT.as_secs();
        let read = |heard| parse_lines(&[&line("192.0.2.7/32", heard)]);
        assert_eq!((read(NOW - day).paths.len(), read(NOW).paths.len()), (1, 1));
        assert_eq!(read(NOW - day - 1), Read::default());
        assert_eq!(read(NOW + 1), Read { paths: vec![], wrong: 1 });
    }

    #[test]
    fn no_more_paths_are_read_than_there_is_room_for() {
        let lines: Vec<_> = (0..20).map(|host| line(&format!("192.0.2.{host}/32"), NOW)).collect();
        let read = parse_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(read.paths.len(), 10);
    }

    #[test]
    fn the_longest_text_fits_into_what_is_read() {
        let key = PathKey::new(u128::MAX, 128);
        let micros = Duration::from_micros(u32::MAX.into());
        let stored = StoredPath { heard: u64::MAX, srtt: micros, rttvar: micros, copies: u8::MAX };
        assert!(write(&[(key, stored); 100]).len() <= most_bytes(100));
    }

    prop_compose! {
        fn any_stored()(heard in NOW - 86_400..=NOW, srtt: u32, rttvar: u32, copies: u8) -> StoredPath {
            let micros = |count: u32| Duration::from_micros(count.into());
            StoredPath { heard, srtt: micros(srtt), rttvar: micros(rttvar), copies }
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
        fn what_looks_like_lines_is_read_without_a_panic(
            lines in "(([0-9a-f:.]{0,12}/[0-9]{1,3}|::/0) heard=[0-9]{0,21}s? srtt=[0-9-]{0,11}us rttvar=[0-9]{0,11}us copies=[0-9]{0,4}/32\n){0,4}"
        ) {
            let count = lines.lines().count();
            let read = parse(format!("{FIRST_LINE}\n{lines}").as_bytes(), NOW, 10).expect("it is ours");
            prop_assert!(read.paths.len() + read.wrong <= count);
        }

        #[test]
        fn what_is_written_is_read_again(paths in proptest::collection::vec(any_path(), 0..10)) {
            let paths: Vec<_> = paths.into_iter().filter(|(key, _)| !is_link_local(*key)).collect();
            let read = parse(write(&paths).as_bytes(), NOW, 10).expect("it is ours");
            prop_assert_eq!(read, Read { paths, wrong: 0 });
        }
    }
}
