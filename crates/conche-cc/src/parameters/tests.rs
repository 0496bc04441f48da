//! Values, tables and errors.

use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::any::ALL;
use crate::temper::Temper;

#[test]
fn printed_parameter_values_are_read_back() {
    let spans = Range::millis(0, 10_000_000);
    for (text, shown) in
        [("2s", "2s"), ("1500ms", "1.5s"), ("1.5 s", "1.5s"), ("2min", "120s"), ("250us", "250us"), ("0s", "0s")]
    {
        let value = spans.parse(text).expect(text);
        assert_eq!(value.to_string(), shown);
        assert_eq!(spans.parse(shown), Some(value));
    }
    let factors = Range::permille(0, 60_000);
    for (text, shown) in [("1.5", "1.5"), ("2", "2"), ("0.125", "0.125"), ("3.0", "3")] {
        assert_eq!(factors.parse(text).expect(text).to_string(), shown);
    }
}

#[test]
fn malformed_values_and_values_out_of_range_are_invalid() {
    let spans = Range::millis(1, 1_000);
    for text in ["", "2", "s", "-1s", "1.s", ".5s", "1e3ms", "1001ms", "0s", "99999999999999999999h", "1.0000000001s"] {
        assert_eq!(spans.parse(text), None, "{text}");
    }
    let factors = Range::permille(1_000, 2_000);
    for text in ["", "0.9", "2.001", "1.0001", "70000", "x"] {
        assert_eq!(factors.parse(text), None, "{text}");
    }
    assert_eq!(Range::permille(0, 1_000).parse("340282366920938463463374607431768211.999"), None);
    assert_eq!(Range::count(0, 255).parse("256"), None);
    assert_eq!(Range::Flag.parse("yes"), None);
}

#[test]
fn every_default_lies_in_its_range_and_sets_the_parameter_to_itself() {
    for named in ALL {
        let default = named.controller();
        let mut names: Vec<&str> = default.parameters().map(|(known, _)| known.name).collect();
        for (Description { name, range, .. }, value) in default.parameters() {
            assert_eq!(range.parse(&value.to_string()), Some(value), "{}: {name}", named.name());
            let mut set = default.clone();
            assert_eq!(set.set(name, &value.to_string()), Ok(()));
            assert_eq!(set, default, "{}: {name}", named.name());
        }
        assert!(
            names.iter().any(|name| ["ack_timeout", "initial_rto", "idle_interval"].contains(name)),
            "{}",
            named.name()
        );
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}: a name occurs twice", named.name());
    }
}

fn extremes(range: Range) -> Vec<Value> {
    match range {
        Range::Span(min, max) => [min, max].map(Value::Span).to_vec(),
        Range::Factor(min, max) => [min, max].map(Value::Factor).to_vec(),
        Range::Count(min, max) | Range::BytesPerSecond(min, max) => [min, max].map(Value::Count).to_vec(),
        Range::Flag => [true, false].map(Value::Flag).to_vec(),
        Range::Choice(words) => words.iter().map(|word| Value::Choice(word)).collect(),
    }
}

#[test]
fn every_extreme_of_every_range_can_be_set() {
    for named in ALL {
        for (Description { name, range, .. }, _) in named.controller().parameters() {
            for value in extremes(*range) {
                let mut controller = named.controller();
                assert_eq!(controller.set(name, &value.to_string()), Ok(()), "{}: {name} = {value}", named.name());
                let now = controller.parameters().find(|(known, _)| known.name == *name).map(|(_, value)| value);
                assert_eq!(now, Some(value), "{}: {name}", named.name());
            }
        }
    }
}

#[cfg(feature = "alloc")]
#[test]
fn a_wrapped_controller_accepts_the_parameters_of_the_inner_one() {
    use crate::dynamic::DynController;

    let mut wrapped = DynController::with_parameters(Temper::default());
    assert_eq!(wrapped.set("grace", "5"), Ok(()));
    let at = |index| wrapped.parameter(index);
    let grace = (0..).map_while(at).find(|(known, _)| known.name == "grace").map(|(_, value)| value);
    assert_eq!(grace, Some(Value::Count(5)));
    assert_eq!(DynController::new(Temper::default()).set("grace", "5"), Err(SettingError::Unknown));
}
