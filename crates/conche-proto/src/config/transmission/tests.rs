//! The transmission parameters against the formulas of the RFC, evaluated independently.

use alloc::{format, vec};

use super::*;

const RFC: TransmissionParameters = TransmissionParameters::RFC_7252;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// RFC 7252 §4.8 (Q41)
#[test]
fn defaults_are_those_of_table_2() {
    let default = TransmissionParameters::default();
    assert_eq!(default.ack_timeout, seconds(2));
    assert_eq!(format!("{}", default.ack_random_factor), "1.5");
    assert_eq!(default.max_retransmit, 4);
    assert_eq!(default.nstart, 1);
    assert_eq!(default.default_leisure, seconds(5));
    assert_eq!(default.probing_rate, 1);
}

// RFC 7252 §4.8.2 (Q49, Q50, Q51, Q52, Q53, Q54)
#[test]
fn derived_times_are_those_of_table_3() {
    assert_eq!(RFC.max_transmit_span(), seconds(45));
    assert_eq!(RFC.max_transmit_wait(), seconds(93));
    assert_eq!(RFC.max_latency, seconds(100));
    assert_eq!(RFC.processing_delay(), seconds(2));
    assert_eq!(RFC.max_rtt(), seconds(202));
    assert_eq!(RFC.exchange_lifetime(), seconds(247));
    assert_eq!(RFC.non_lifetime(), seconds(145));
}

/// The derived times of §4.8.2 in milliseconds, summed timeout by timeout.
struct Expected {
    span: u64,
    wait: u64,
    lifetime: u64,
    non_lifetime: u64,
}

fn expected(timeout_ms: u64, permille: u64, retransmissions: u8, latency_ms: u64, delay_ms: u64) -> Expected {
    let longest_first = timeout_ms * permille / 1000;
    let (mut span, mut timeout) = (0, longest_first);
    for _ in 0..retransmissions {
        span += timeout;
        timeout *= 2;
    }
    let wait = span + timeout;
    let simplified = span + latency_ms + delay_ms + latency_ms;
    // The RFC's simplification, if its condition holds; otherwise the sender's own wait counts as
    // well.
    let lifetime = if wait - span < latency_ms { simplified } else { simplified.max(wait) };
    Expected { span, wait, lifetime, non_lifetime: span + latency_ms }
}

// RFC 7252 §4.8.1 (Q47), §4.8.2 (Q49, Q50, Q52, Q53, Q54)
#[test]
fn derived_times_follow_every_parameter() {
    let mut sets = 0;
    let mut beyond_simplified = 0;
    for timeout_ms in [1, 500, 1000, 2000, 10_000] {
        for permille in [1000, 1100, 1500, 2000, 3500] {
            for max_retransmit in [0, 1, 4, 7, 20] {
                for latency_ms in [0, 10_000, 100_000, 600_000] {
                    for delay_ms in [None, Some(0), Some(7_000)] {
                        let parameters = TransmissionParameters {
                            ack_timeout: Duration::from_millis(timeout_ms),
                            ack_random_factor: RandomFactor { permille },
                            max_retransmit,
                            max_latency: Duration::from_millis(latency_ms),
                            processing_delay: delay_ms.map(Duration::from_millis),
                            ..RFC
                        };
                        let delay = delay_ms.unwrap_or(timeout_ms);
                        // In microseconds, so that the factor divides without a remainder.
                        let expected = expected(
                            timeout_ms * 1000,
                            permille.into(),
                            max_retransmit,
                            latency_ms * 1000,
                            delay * 1000,
                        );
                        let micros = Duration::from_micros;
                        assert_eq!(parameters.max_transmit_span(), micros(expected.span), "{parameters:?}");
                        assert_eq!(parameters.max_transmit_wait(), micros(expected.wait), "{parameters:?}");
                        assert_eq!(parameters.max_rtt(), micros((2 * latency_ms + delay) * 1000), "{parameters:?}");
                        assert_eq!(parameters.exchange_lifetime(), micros(expected.lifetime), "{parameters:?}");
                        assert_eq!(parameters.non_lifetime(), micros(expected.non_lifetime), "{parameters:?}");
                        sets += 1;
                        beyond_simplified += u32::from(expected.wait == expected.lifetime);
                    }
                }
            }
        }
    }
    assert!(sets >= 1000 && beyond_simplified >= 100, "{sets} {beyond_simplified}");
}

// RFC 7252 §4.8.2 (Q53)
#[test]
fn an_ack_timeout_of_10_s_makes_the_exchange_last_until_the_sender_gives_up() {
    let slow = TransmissionParameters { ack_timeout: seconds(10), ..RFC };
    assert_eq!(slow.max_transmit_span() + slow.max_rtt(), seconds(435));
    assert_eq!(slow.max_transmit_wait(), seconds(465));
    assert_eq!(slow.exchange_lifetime(), seconds(465));
}

#[test]
fn times_saturate_for_every_max_retransmit() {
    let mut previous = None;
    for max_retransmit in 0..=u8::MAX {
        let parameters = TransmissionParameters { max_retransmit, ..RFC };
        let span = parameters.max_transmit_span();
        assert!(Some(span) > previous || span == Duration::MAX, "{max_retransmit}");
        assert!(parameters.max_transmit_wait() >= span, "{max_retransmit}");
        previous = Some(span);
    }
    assert_eq!(previous, Some(Duration::MAX));
    let most = TransmissionParameters {
        ack_timeout: Duration::MAX,
        ack_random_factor: RandomFactor { permille: u16::MAX },
        max_retransmit: u8::MAX,
        max_latency: Duration::MAX,
        ..RFC
    };
    for time in [
        most.max_transmit_span(),
        most.max_transmit_wait(),
        most.max_rtt(),
        most.exchange_lifetime(),
        most.non_lifetime(),
    ] {
        assert_eq!(time, Duration::MAX);
    }
}

#[test]
fn no_retransmission_makes_the_span_zero_and_the_wait_one_timeout() {
    let once = TransmissionParameters { max_retransmit: 0, ..RFC };
    assert_eq!(once.max_transmit_span(), Duration::ZERO);
    assert_eq!(once.max_transmit_wait(), seconds(3));
}

#[test]
fn a_longer_span_prolongs_the_lifetimes_of_message_ids() {
    let contiki = TransmissionParameters { transmit_span: Some(seconds(600)), ..RFC };
    assert_eq!(contiki.max_transmit_span(), seconds(600));
    assert_eq!([contiki.exchange_lifetime(), contiki.non_lifetime()], [seconds(802), seconds(700)]);
    let longer = ParameterWarning::EnlargedLifetimes(seconds(802));
    assert_eq!(contiki.validate(false), Ok(vec![ParameterWarning::NotDefault, longer]));
}

#[test]
fn without_a_last_timeout_there_must_be_a_retransmission() {
    let contiki = TransmissionParameters { last_timeout: false, ..RFC };
    assert_eq!(contiki.validate(false), Ok(vec![ParameterWarning::NotDefault]));
    let never = TransmissionParameters { max_retransmit: 0, ..contiki };
    assert_eq!(never.validate(false), Err(ParameterError::NoTimeout));
}

// RFC 7252 §4.8.1 (Q42)
#[test]
fn only_the_defaults_give_no_warning() {
    assert_eq!(RFC.validate(false), Ok(vec![]));
    let leisurely = TransmissionParameters { default_leisure: seconds(6), ..RFC };
    assert_eq!(leisurely.validate(false), Ok(vec![ParameterWarning::NotDefault]));
}

// RFC 7252 §4.8.1 (Q43)
#[test]
fn an_ack_timeout_below_1_s_needs_a_controller_that_measures() {
    let short = Duration::from_millis(999);
    let parameters = TransmissionParameters { ack_timeout: short, ..RFC };
    assert_eq!(parameters.validate(false), Err(ParameterError::ShortAckTimeout(short)));
    assert_eq!(parameters.validate(true), Ok(vec![ParameterWarning::NotDefault]));
}

// RFC 7252 §4.8.1 (Q44)
#[test]
fn a_lowered_ack_timeout_or_raised_nstart_is_no_matter_of_course() {
    let lowered = TransmissionParameters { ack_timeout: seconds(1), ..RFC };
    let warnings = vec![ParameterWarning::NotDefault, ParameterWarning::ShortAckTimeout(seconds(1))];
    assert_eq!(lowered.validate(false), Ok(warnings));

    let raised = TransmissionParameters { nstart: 2, ..RFC };
    assert_eq!(raised.validate(false), Err(ParameterError::HighNstart(2)));
    assert_eq!(raised.validate(true), Ok(vec![ParameterWarning::NotDefault]));
}

// RFC 7252 §4.8.1 (Q45)
#[test]
fn an_ack_random_factor_below_1_is_refused_with_any_controller() {
    let factor = RandomFactor { permille: 999 };
    let parameters = TransmissionParameters { ack_random_factor: factor, ..RFC };
    for measures in [false, true] {
        assert_eq!(parameters.validate(measures), Err(ParameterError::RandomFactorBelowOne(factor)));
    }
}

// RFC 7252 §4.8.1 (Q46)
#[test]
fn an_ack_random_factor_below_1_2_gives_a_warning() {
    for (permille, little) in [(1000, true), (1199, true), (1200, false), (1500, false)] {
        let factor = RandomFactor { permille };
        let parameters = TransmissionParameters { ack_random_factor: factor, ..RFC };
        let warnings = parameters.validate(false).expect("the factor is legal");
        assert_eq!(warnings.contains(&ParameterWarning::LittleRandomness(factor)), little, "{permille}");
    }
}

// RFC 7252 §4.8.1 (Q48)
#[test]
fn enlarged_lifetimes_give_a_warning_that_names_them() {
    let patient = TransmissionParameters { max_retransmit: 5, ..RFC };
    let lifetime = ParameterWarning::EnlargedLifetimes(patient.exchange_lifetime());
    assert_eq!(patient.validate(false), Ok(vec![ParameterWarning::NotDefault, lifetime]));
    assert!(format!("{lifetime}").contains("295s"), "{lifetime}");
}

#[test]
fn parameters_that_stop_all_traffic_are_refused() {
    let cases = [
        (TransmissionParameters { ack_timeout: Duration::ZERO, ..RFC }, ParameterError::NoAckTimeout),
        (TransmissionParameters { nstart: 0, ..RFC }, ParameterError::NoNstart),
        (TransmissionParameters { probing_rate: 0, ..RFC }, ParameterError::NoProbingRate),
    ];
    for (parameters, error) in cases {
        assert_eq!(parameters.validate(true), Err(error));
    }
}

#[test]
fn factors_print_without_needless_zeros() {
    for (permille, text) in [(1500, "1.5"), (1000, "1.0"), (1250, "1.25"), (1001, "1.001"), (65_535, "65.535")] {
        assert_eq!(format!("{}", RandomFactor { permille }), text);
    }
}

// RFC 7252 §4.8.1 (Q43, Q44)
#[test]
fn the_safe_nstart_depends_on_the_controller() {
    let check = |parameters: TransmissionParameters, name: &str| {
        parameters.validate_with(&conche_cc::AnyController::by_name(name).expect("a known name"))
    };
    let four = TransmissionParameters { nstart: 4, ..TransmissionParameters::RFC_7252 };
    assert_eq!(check(four, "default").err(), Some(ParameterError::HighNstart(4)));
    assert_eq!(check(four, "default-fb1").err(), Some(ParameterError::HighNstart(4)));
    assert!(check(four, "cocoa").is_ok());
}

#[test]
fn an_ack_timeout_that_the_controller_does_not_know_is_refused() {
    use conche_cc::default::CoapDefault;
    let ack_timeout = Duration::from_secs(5);
    let slow = TransmissionParameters { ack_timeout, ..TransmissionParameters::RFC_7252 };
    let refused = slow.validate_with(&CoapDefault::default()).expect_err("its timers start at 2 s");
    assert_eq!(refused, ParameterError::OtherInitialRto { ack_timeout, initial_rto: Duration::from_secs(2) });
    assert!(slow.validate_with(&CoapDefault { ack_timeout, ..CoapDefault::default() }).is_ok());
}
