//! Names, unknown names, and state of another algorithm.

use std::string::ToString;

use super::*;
#[cfg(feature = "alloc")]
use crate::features::Features;
use crate::testing::TestDriver;

#[test]
fn names_are_unique_and_in_lower_case_with_dashes() {
    for (n, named) in ALL.iter().enumerate() {
        assert!(named.name().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        assert!(ALL[..n].iter().all(|other| other.name() != named.name()), "{} twice", named.name());
    }
}

#[test]
fn every_name_is_found_with_dashes_underscores_and_capitals() {
    for named in ALL {
        let found = Ok(named.controller());
        assert_eq!(AnyController::by_name(named.name()), found);
        assert_eq!(AnyController::by_name(&named.name().replace('-', "_")), found);
        assert_eq!(AnyController::by_name(&named.name().to_uppercase()), found);
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_nearest_and_all_others() {
    let asked = ["coco", "peakhopper", "fasr", "bpd", "x", ""];
    let errors = asked.map(|name| AnyController::by_name(name).expect_err("no such name"));
    let nearest = errors.each_ref().map(|error| error.nearest());
    assert_eq!(nearest, [Some("cocoa"), Some("peak-hopper"), Some("fasor"), Some("bdp"), None, None]);
    let message = AnyController::by_name("lynux").expect_err("no such name").to_string();
    assert!(message.starts_with("no congestion controller is called \"lynux\"; did you mean linux?"), "{message}");
    assert!(ALL.iter().all(|named| message.contains(named.name())), "{message}");
    let message = AnyController::by_name("x").expect_err("no such name").to_string();
    assert!(message.starts_with("no congestion controller is called \"x\". Valid names: default, "), "{message}");
}

#[cfg(feature = "alloc")]
const OWN: &[Named] = &[
    Named::own::<crate::cocoa::Cocoa>("mine", Features::of::<crate::cocoa::Cocoa>("a copy")),
    Named::own::<crate::linux::Linux>("my-second", Features::of::<crate::linux::Linux>("another")),
];

#[test]
#[cfg(feature = "alloc")]
fn controllers_of_ones_own_stand_behind_the_others() {
    let all = Controllers::with(OWN.to_vec()).expect("new names");
    assert_eq!(all.iter().count(), ALL.len() + 2);
    assert_eq!(all.by_name("Mine").expect("its name").features.peer_bytes, 24);
    let mine = all.by_name("my_second").expect("its name").controller();
    assert_eq!(TestDriver::new(&mine).clean(300), TestDriver::new(&crate::linux::Linux::default()).clean(300));
    assert!(all.by_name("linux").is_ok() && AnyController::by_name("mine").is_err());
    let message = all.by_name("mein").expect_err("no such name").to_string();
    assert!(message.contains("did you mean mine?") && message.ends_with(", mine, my-second"), "{message}");
}

#[test]
#[cfg(feature = "alloc")]
fn no_two_controllers_have_one_name() {
    let refused = |own: [&Named; 2]| Controllers::with(own.map(Named::clone)).expect_err("one name twice").to_string();
    let twice = "two congestion controllers are called mine; give yours another name";
    assert_eq!(refused([&OWN[0], &OWN[0]]), twice);
    let taken = Named::own::<crate::cocoa::Cocoa>("COCOA_S", OWN[0].features);
    assert!(refused([&OWN[1], &taken]).contains("COCOA_S"));
}

#[test]
#[cfg(feature = "alloc")]
fn controllers_defined_at_run_time_belong_to_their_set() {
    let features = Features::of::<crate::linux::Linux>("defined at run time");
    let set = |rto: u64, version| {
        let ack_timeout = core::time::Duration::from_millis(rto);
        let make = move || crate::default::CoapDefault { ack_timeout, ..Default::default() }.into();
        let own = Named::from_fn(std::format!("mine-{version}"), features, make).with_version(version);
        Controllers::with([own]).expect("a new name")
    };
    let (old, new) = (set(3_000, 1), set(5_000, 2));
    let rto =
        |set: &Controllers, name: &str| TestDriver::new(&set.by_name(name).expect("its name").controller()).base();
    assert_eq!([rto(&old, "mine-1"), rto(&new, "mine-2"), rto(&old.clone(), "Mine_1")], [3_000, 5_000, 3_000]);
    assert!(old.by_name("mine-2").is_err() && Named::by_name("mine-1").is_err());
    assert_eq!([&old, &new].map(|set| set.own()[0].version()), [Some(1), Some(2)]);
    let error = new.configured("mine-2:ack_timeout=x").expect_err("no time").to_string();
    assert!(error.starts_with("mine-2: `ack_timeout = x` is invalid; valid is 1ms to 60s."), "{error}");
    assert!(old == old.clone() && old != new && old != Controllers::new());
}

#[test]
fn a_long_wrong_name_is_cut_between_letters() {
    let name = "ü".repeat(40);
    let message = AnyController::by_name(&name).expect_err("no such name").to_string();
    assert!(message.contains(&"ü".repeat(16)) && !message.contains(&"ü".repeat(17)), "{message}");
}

#[test]
fn the_state_of_another_algorithm_is_replaced() {
    let (linux, cocoa) = (AnyController::by_name("linux"), AnyController::by_name("cocoa"));
    let (linux, cocoa) = (linux.expect("a name"), cocoa.expect("a name"));
    let mut old = TestDriver::new(&linux);
    old.clean(300);
    let mut new = TestDriver::new(&cocoa);
    new.peer = old.peer.clone();
    new.flight = old.flight.clone();
    assert_eq!(cocoa.snapshot(&new.peer), Snapshot::default());
    assert_eq!(new.base(), 2_000);
    assert_eq!(new.clean(300), 1_450);
}

#[test]
#[cfg(not(feature = "alloc"))]
fn without_a_heap_any_state_is_little_larger_than_the_largest() {
    let largest = ALL.iter().map(|named| named.features.peer_bytes).max();
    assert!(largest.is_some_and(|bytes| size_of::<AnyPeer>() <= bytes + 8), "{} bytes", size_of::<AnyPeer>());
}

#[test]
#[cfg(feature = "alloc")]
fn with_a_heap_any_state_takes_40_bytes_at_most() {
    assert!(size_of::<AnyPeer>() <= 40, "{} bytes", size_of::<AnyPeer>());
}

#[test]
fn any_exchange_is_little_larger_than_the_largest() {
    let largest = ALL.iter().map(|named| named.features.flight_bytes).max();
    assert!(largest.is_some_and(|bytes| size_of::<AnyFlight>() <= bytes + 8), "{} bytes", size_of::<AnyFlight>());
}

fn readme_row(line: &str) -> Option<[&str; 4]> {
    let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
    Some([cells.next()?, cells.next()?, cells.next()?, cells.next()?])
}

#[test]
fn the_readme_lists_the_measured_bytes_of_every_controller() {
    let rows = || include_str!("../../README.md").lines().filter_map(readme_row);
    for named in ALL {
        let quoted = std::format!("`{}`", named.name());
        let is_row = |row: &[&str; 4]| std::format!("`{}", row[0]).split(", ").any(|name| name == quoted);
        let [_, peer, flight, published] = rows().find(is_row).expect("a row of this name");
        assert_eq!([peer.parse(), flight.parse()], [Ok(named.features.peer_bytes), Ok(named.features.flight_bytes)]);
        if let Some(bytes) = named.features.published_bytes {
            assert_eq!(published.parse(), Ok(bytes), "{}", named.name());
        }
    }
}
