//! The cases, which are data: `interop/cases/*.toml`, and what is not expected of whom, `interop/exceptions.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::party::{Peer, Role};
use crate::project::Project;

/// The files of the cases, in the order of the report.
const FILES: [&str; 5] = ["core", "link", "block", "observe", "irisa"];

/// One case of the test descriptions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// As the test descriptions have it, as in `CORE_01`.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Requests that bring the server into the state that the case begins with, whatever they are answered.
    #[serde(default)]
    pub before: Vec<String>,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

/// Something that the client does, and what must be seen of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// See [`Action`](super::action::Action).
    #[serde(rename = "do")]
    pub action: String,
    /// Lines of a ladder; see [`ladder`](super::ladder).
    #[serde(default)]
    pub see: Vec<String>,
    /// Lines of which none may come by.
    #[serde(default)]
    pub unseen: Vec<String>,
    /// The first datagram that fits each of these lines is lost.
    #[serde(default)]
    pub lose: Vec<String>,
    /// What the client tells its user: `2.05`, `2.05 payload`, `pong` or `failed`. Without it, anything but a failure.
    pub told: Option<String>,
    /// How many notifications the client tells its user of, at least.
    #[serde(default)]
    pub notified: usize,
    /// How long to watch once everything is seen, in seconds.
    #[serde(default)]
    pub quiet: f64,
    /// Names for the values of options that the server sends.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
}

/// All cases.
pub fn read(project: &Project) -> Result<Vec<Case>> {
    #[derive(Deserialize)]
    struct File {
        case: Vec<Case>,
    }
    let mut cases: Vec<Case> = Vec::new();
    for name in FILES {
        let path = format!("interop/cases/{name}.toml");
        let file: File = toml::from_str(&project.read(&path)?).context(path)?;
        cases.extend(file.case);
    }
    Ok(cases)
}

/// A case that is not expected to pass with some peers in some roles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Which cases: an id, or its beginning and `*`.
    pub cases: Vec<String>,
    /// Which peers; all, if there is none.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// Which role of ours; both, if there is none.
    pub role: Option<Role>,
    /// What it is instead.
    pub result: Excepted,
    /// Why.
    pub note: String,
}

/// Why a case is not expected to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excepted {
    /// We cannot do it yet. It is not run.
    NotYet,
    /// The peer offers no way to have it do that. It is not run.
    NotApplicable,
    /// The peer does otherwise. It is run, and must not pass.
    PeerDiffers,
}

impl Exception {
    /// Whether it is about this.
    pub fn covers(&self, case: &str, peer: Peer, role: Role) -> bool {
        let named = self.cases.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => case.starts_with(beginning),
            None => case == pattern,
        });
        named && (self.peers.is_empty() || self.peers.contains(&peer)) && self.role.is_none_or(|only| only == role)
    }
}

/// All exceptions; each must be about a case that there is.
pub fn exceptions(project: &Project, cases: &[Case]) -> Result<Vec<Exception>> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        exception: Vec<Exception>,
    }
    let path = "interop/exceptions.toml";
    let file: File = toml::from_str(&project.read(path)?).context(path)?;
    for exception in &file.exception {
        let about = |case: &Case| {
            Role::ALL.iter().any(|&role| Peer::ALL.iter().any(|&peer| exception.covers(&case.id, peer, role)))
        };
        if !cases.iter().any(about) {
            bail!("{path}: there is no case {:?}", exception.cases);
        }
    }
    Ok(file.exception)
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::ladder::Line;
    use super::*;

    #[test]
    fn every_case_is_well_formed_and_has_an_id_of_its_own() {
        let project = Project::find().expect("a checkout");
        let cases = read(&project).expect("they are well-formed");
        exceptions(&project, &cases).expect("they are about cases");
        for (at, case) in cases.iter().enumerate() {
            assert!(!cases[..at].iter().any(|other| other.id == case.id), "{} is there twice", case.id);
            let mut kept = BTreeMap::new();
            for step in &case.steps {
                Action::parse(&step.action, &kept).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                for line in step.see.iter().chain(&step.unseen).chain(&step.lose) {
                    Line::parse(line).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
                }
                kept.extend(step.keep.keys().map(|name| (name.clone(), Vec::new())));
            }
            for action in &case.before {
                Action::parse(action, &BTreeMap::new()).unwrap_or_else(|error| panic!("{}: {error:#}", case.id));
            }
        }
    }

    #[test]
    fn an_exception_covers_what_it_names() {
        let cases = vec!["OBS_*".to_owned(), "CORE_31".to_owned()];
        let exception = Exception {
            cases,
            peers: vec![Peer::Aiocoap],
            role: Some(Role::Client),
            result: Excepted::NotYet,
            note: String::new(),
        };
        assert!(exception.covers("OBS_01", Peer::Aiocoap, Role::Client));
        assert!(exception.covers("CORE_31", Peer::Aiocoap, Role::Client));
        assert!(!exception.covers("CORE_30", Peer::Aiocoap, Role::Client));
        assert!(!exception.covers("OBS_01", Peer::Libcoap, Role::Client));
        assert!(!exception.covers("OBS_01", Peer::Aiocoap, Role::Server));
    }
}
