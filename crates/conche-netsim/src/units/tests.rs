//! Parsing of units, and the error for a bare number.

use ::serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
struct Link {
    rate: BitRate,
    delay: SpanRange,
    buffer: Size,
}

fn link(text: &str) -> Result<Link, Box<str>> {
    toml::from_str(text).map_err(|error: toml::de::Error| error.to_string().into())
}

#[test]
fn quantities_carry_their_units() {
    let link = link("rate = '30kbit/s'\ndelay = '10ms..20ms'\nbuffer = '2.5kB'").expect("a valid link");
    assert_eq!(link.rate, BitRate::kbit(30));
    assert_eq!(link.delay.as_nanos(), 10_000_000..=20_000_000);
    assert_eq!(link.buffer, Size(2500));
}

#[test]
fn a_single_time_is_a_range_of_one() {
    let range: SpanRange = "1.5 s".parse().expect("a valid time");
    assert_eq!(range.as_nanos(), 1_500_000_000..=1_500_000_000);
    assert_eq!(range.to_string(), "1500ms");
}

#[test]
fn a_time_has_decimals_in_its_short_form_only() {
    for (text, short) in [("0s", "0s"), ("1500ms", "1.5s"), ("100s", "100s"), ("90s", "1.5min"), ("1ns", "1ns")] {
        assert_eq!(format!("{:#}", text.parse::<Span>().expect("a time")), short);
    }
}

#[test]
fn a_negative_quantity_is_named_so() {
    for text in ["-1s", "-30kbit/s"] {
        assert!(Span::parse(text).expect_err(text).to_string().contains("it is negative"), "{text}");
    }
}

#[test]
fn a_bare_number_is_refused_with_a_remedy() {
    let error = link("rate = 30000\ndelay = '1ms'\nbuffer = '1B'").expect_err("no unit");
    assert!(error.contains("line 1"), "{error}");
    assert!(error.contains("the bare number 30000 has no unit; write a data rate as in \"30kbit/s\""), "{error}");
    let error = link("rate = '30000'\ndelay = '1ms'\nbuffer = '1B'").expect_err("no unit");
    assert!(error.contains("`30000` is not a data rate: a bare number has no unit"), "{error}");
    let error = link("rate = '1bit/s'\ndelay = 0.4\nbuffer = '1B'").expect_err("no unit");
    assert!(error.contains("write a time or a range of times as in \"10ms..20ms\""), "{error}");
}

#[test]
fn unknown_units_are_named_beside_the_known_ones() {
    let error = "30kbps".parse::<BitRate>().expect_err("not a unit of ours").to_string();
    assert!(error.contains("unknown unit `kbps`, the units are bit/s, kbit/s, Mbit/s, Gbit/s"), "{error}");
}

#[test]
fn an_inexact_or_malformed_time_is_an_error() {
    for bad in ["0.5ns", "1..2ms", "99999999999999h", "-1s", "ms", "1.2.3s", ""] {
        assert!(bad.parse::<Span>().is_err(), "{bad} was accepted");
    }
    assert!("20ms..10ms".parse::<SpanRange>().is_err());
    assert_eq!("0.5us".parse::<Span>().expect("500 ns"), Span(Duration::from_nanos(500)));
}

#[test]
fn printed_units_read_back_as_the_same_value() {
    for base in [0, 1, 999, 1_000, 62_500, 1_000_000, 90_000_000_000, 3_600_000_000_000] {
        let span = Span::from_base(base);
        assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        assert_eq!(format!("{span:#}").parse::<Span>(), Ok(span));
        let size = Size::from_base(base);
        assert_eq!(size.to_string().parse::<Size>(), Ok(size));
    }
}
