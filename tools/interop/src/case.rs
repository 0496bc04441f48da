//! Cases (`tools/interop/cases/*.toml`) and exceptions (`tools/interop/exceptions.toml`).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Deserialize;

use crate::endpoint::{Peer, Role};
use crate::mode::Mode;
use tool_support::Project;

const FILES: [&str; 5] = ["core", "link", "block", "observe", "irisa"];

/// One case of the test descriptions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// ID in the test descriptions, as in `CORE_01`.
    pub id: String,
    pub title: String,
    /// Requests that prepare the server's state, whatever their responses.
    #[serde(default)]
    pub before: Vec<String>,
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Test, as `FILE::NAME`, that runs the case in virtual time with conche in both roles, as it
    /// takes minutes or days. Such a case is not run here.
    pub virtual_time: Option<String>,
}

/// An action of the client, and its expected messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// See [`Action`](super::action::Action).
    #[serde(rename = "do", default)]
    pub action: String,
    /// Expected lines of the ladder, see [`ladder`](super::ladder).
    #[serde(default)]
    pub see: Vec<String>,
    /// Lines that must not occur.
    #[serde(default)]
    pub unseen: Vec<String>,
    /// Lines that may occur; Resets must match a line here or in `see`.
    #[serde(default)]
    pub may: Vec<String>,
    /// Lines that drop their first matching datagram, or each.
    #[serde(default)]
    pub lose: Vec<String>,
    /// A line, and an option to add to the first matching datagram.
    #[serde(default)]
    pub add: Vec<(String, String)>,
    /// Expected output of the client: `2.05`, `2.05 payload`, `pong`, `failed`, or `nothing`, which
    /// permits a failure. `None` permits anything else.
    pub told: Option<String>,
    /// Maximum duration of the step, in seconds.
    pub within: Option<f64>,
    /// Minimum number of notifications that the client reports.
    #[serde(default)]
    pub notified: usize,
    /// Time to watch after all expected messages, in seconds.
    #[serde(default)]
    pub quiet: f64,
    /// Options of the server to keep, by name.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
}

pub fn read(project: &Project) -> Result<Vec<Case>> {
    FILES.into_iter().map(|name| read_file(project, name)).collect::<Result<Vec<_>>>().map(|files| files.concat())
}

pub fn secured(project: &Project) -> Result<Vec<Case>> {
    read_file(project, "secured")
}

/// Of these cases, the datagrams are known at the end only.
pub fn emulated(project: &Project) -> Result<Vec<Case>> {
    read_file(project, "emulated")
}

fn read_file(project: &Project, name: &str) -> Result<Vec<Case>> {
    #[derive(Deserialize)]
    struct File {
        case: Vec<Case>,
    }
    let path = format!("tools/interop/cases/{name}.toml");
    let file: File = toml::from_str(&project.read(&path)?).context(path)?;
    Ok(file.case)
}

/// A case with another result for some peers in some roles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Case IDs, or their beginning and `*`.
    pub cases: Vec<String>,
    /// Empty for unprotected.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Empty for all.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// conche's role; `None` for both.
    pub role: Option<Role>,
    pub result: Excepted,
    pub note: String,
    /// Number of the step, from 1, in which a peer differs. The case ends with it.
    pub step: Option<usize>,
    /// Expectations of that step; its action remains.
    pub instead: Option<Step>,
}

impl Case {
    pub fn with(&self, number: usize, instead: &Step) -> Result<Self> {
        let mut case = self.clone();
        case.steps.truncate(number);
        let step = case.steps.get_mut(number.wrapping_sub(1));
        let step = step.with_context(|| format!("{} has no step {number}", self.id))?;
        let Step { action, lose, add, .. } = step.clone();
        *step = Step { action, lose, add, ..instead.clone() };
        Ok(case)
    }

    /// Known duration.
    pub fn patience(&self) -> Duration {
        let seconds = |step: &Step| step.quiet + step.within.unwrap_or_default();
        Duration::from_secs_f64(self.steps.iter().map(seconds).sum())
    }

    pub fn observes(&self) -> bool {
        self.steps.iter().any(|step| step.action.contains("Observe=0"))
    }

    /// Whether the client is off, or waits for a response that does not come.
    pub fn uses_up_the_client(&self) -> bool {
        self.steps.iter().any(|step| step.action == "off" || step.told.as_deref() == Some(NOTHING))
    }
}

/// Expected output of a client that must report no response.
pub const NOTHING: &str = "nothing";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excepted {
    /// conche does not support it yet; not run.
    NotYet,
    /// The peer offers no way to do it; not run.
    NotApplicable,
    /// The peer behaves differently; run with other expectations.
    PeerDiffers,
}

impl Exception {
    pub fn covers(&self, case: &str, mode: Mode, peer: Peer, role: Role) -> bool {
        let in_mode = self.modes.contains(&mode) || self.modes.is_empty() && mode == Mode::Plain;
        let named = self.cases.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => case.starts_with(beginning),
            None => case == pattern,
        });
        in_mode
            && named
            && (self.peers.is_empty() || self.peers.contains(&peer))
            && self.role.is_none_or(|only| only == role)
    }
}

/// Each must apply to an existing case.
pub fn exceptions(project: &Project, cases: &[Case]) -> Result<Vec<Exception>> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        exception: Vec<Exception>,
    }
    let path = "tools/interop/exceptions.toml";
    let file: File = toml::from_str(&project.read(path)?).context(path)?;
    for exception in &file.exception {
        let mut modes = Mode::value_variants().iter();
        let is_about_one = modes.any(|&mode| {
            let covers = |case: &Case, peer| {
                Role::value_variants().iter().any(|&role| exception.covers(&case.id, mode, peer, role))
            };
            cases.iter().any(|case| mode.peers().iter().any(|&peer| covers(case, peer)))
        });
        if !is_about_one {
            bail!("{path}: there is no case {:?}", exception.cases);
        }
        let differs = exception.result == Excepted::PeerDiffers;
        let what = &exception.cases;
        if exception.instead.is_some() != differs || exception.step.is_some() != differs {
            bail!(
                "{path}: {what:?}: of a peer that differs, and of no other, `step` and `instead` must say what it does"
            );
        }
        if exception
            .instead
            .as_ref()
            .is_some_and(|step| !(step.action.is_empty() && step.lose.is_empty() && step.add.is_empty()))
        {
            bail!("{path}: {what:?}: `do`, `lose` and `add` remain what they are in the case");
        }
    }
    Ok(file.exception)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{self, Action};
    use crate::ladder::Line;

    #[test]
    fn every_case_is_well_formed_and_has_an_id_of_its_own() {
        let project = Project::find().expect("a checkout");
        let mut cases = read(&project).expect("they are well-formed");
        cases.extend(secured(&project).expect("they are well-formed"));
        cases.extend(emulated(&project).expect("they are well-formed"));
        let exceptions = exceptions(&project, &cases).expect("they are about cases");
        for (at, case) in cases.iter().enumerate() {
            assert!(!cases[..at].iter().any(|other| other.id == case.id), "{} is there twice", case.id);
            let mut kept = BTreeMap::new();
            for step in &case.steps {
                Action::parse(&step.action, &kept).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                for line in step.see.iter().chain(&step.unseen).chain(&step.may).chain(&step.lose) {
                    Line::parse(line).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                }
                for (line, option) in &step.add {
                    Line::parse(line).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                    action::option(option, &kept).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                }
                kept.extend(step.keep.keys().map(|name| (name.clone(), Vec::new())));
            }
            for action in &case.before {
                Action::parse(action, &BTreeMap::new()).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
            }
            for instead in exceptions.iter().filter(|exception| exception.cases.contains(&case.id)) {
                let Some((number, instead)) = instead.step.zip(instead.instead.as_ref()) else { continue };
                let last = case.with(number, instead).expect("there is the step").steps.pop().expect("there is a step");
                for line in last.see.iter().chain(&last.unseen).chain(&last.may) {
                    Line::parse(line).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                }
            }
        }
    }

    #[test]
    fn an_emulated_case_expects_outputs_only() {
        let project = Project::find().expect("a checkout");
        for case in emulated(&project).expect("they are well-formed") {
            assert!(case.before.is_empty() && case.virtual_time.is_none(), "{}", case.id);
            for step in &case.steps {
                let datagrams = [&step.see, &step.unseen, &step.lose];
                assert!(datagrams.into_iter().all(Vec::is_empty) && step.add.is_empty(), "{}", case.id);
                assert!(step.keep.is_empty() && (step.told.is_some() || step.notified > 0), "{}", case.id);
            }
        }
    }

    #[test]
    fn a_case_has_steps_or_a_test_in_virtual_time_that_there_is() {
        let project = Project::find().expect("a checkout");
        for case in read(&project).expect("they are well-formed") {
            let Some(test) = &case.virtual_time else {
                assert!(!case.steps.is_empty(), "{} has no steps", case.id);
                continue;
            };
            let (file, name) = test.split_once("::").expect("FILE::NAME");
            let text = project.read(file).expect("the file is there");
            assert!(text.contains(&format!("fn {name}(")), "{}: there is no {test}", case.id);
        }
    }

    #[test]
    fn an_alternative_step_replaces_one_step_and_ends_the_case() {
        let case = "id = 'A'\ntitle = 'a'\nsteps = [{ do = 'CON GET /a', see = ['< ACK 2.05'], lose = ['x> CON GET'] }, { do = 'wait' }]";
        let case: Case = toml::from_str(case).expect("a case");
        let instead: Step = toml::from_str("see = ['< ACK 4.04']\ntold = '4.04'").expect("a step");
        let differs = case.with(1, &instead).expect("there is the step");
        let [Step { action, see, lose, .. }] = &differs.steps[..] else { panic!("{differs:?}") };
        assert_eq!(
            (&**action, &see[..], &lose[..]),
            ("CON GET /a", &["< ACK 4.04".to_owned()][..], &["x> CON GET".to_owned()][..])
        );
        assert!(case.with(3, &instead).is_err() && case.with(0, &instead).is_err());
    }

    #[test]
    fn an_exception_covers_only_its_cases_peers_roles_and_modes() {
        let cases = vec!["OBS_*".to_owned(), "CORE_31".to_owned()];
        let exception = Exception {
            cases,
            modes: Vec::new(),
            peers: vec![Peer::Aiocoap],
            role: Some(Role::Client),
            result: Excepted::NotYet,
            note: String::new(),
            step: None,
            instead: None,
        };
        assert!(exception.covers("OBS_01", Mode::Plain, Peer::Aiocoap, Role::Client));
        assert!(exception.covers("CORE_31", Mode::Plain, Peer::Aiocoap, Role::Client));
        assert!(!exception.covers("CORE_30", Mode::Plain, Peer::Aiocoap, Role::Client));
        assert!(!exception.covers("OBS_01", Mode::Plain, Peer::Libcoap, Role::Client));
        assert!(!exception.covers("OBS_01", Mode::Plain, Peer::Aiocoap, Role::Server));
        assert!(!exception.covers("OBS_01", Mode::Oscore, Peer::Aiocoap, Role::Client));
        let in_a_mode = Exception { modes: vec![Mode::Oscore], ..exception };
        assert!(in_a_mode.covers("OBS_01", Mode::Oscore, Peer::Aiocoap, Role::Client));
        assert!(!in_a_mode.covers("OBS_01", Mode::Plain, Peer::Aiocoap, Role::Client));
    }
}
