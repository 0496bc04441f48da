//! Controls of the page: play, pause, step, speed, and changes of links.

use std::fmt;

use conche_lab::trial::Emulation;
use conche_netsim::LinkId;
use conche_netsim::units::{BitRate, Span};
use conche_netsim::wired::{LinkConfig, Loss, Topology};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::packet_counts::group;

/// Range of speeds in simulated seconds per second.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=1000.0;

/// A control, and where its outcome goes.
#[derive(Debug)]
pub struct Request {
    pub control: Control,
    pub answer: oneshot::Sender<Result<(), Refusal>>,
}

/// Why a control has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The run is in a state without it.
    #[error("{0}")]
    Now(&'static str),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum Control {
    Play {},
    Pause {},
    Step {
        /// Nodes of /network; all nodes if it is empty.
        #[serde(default, deserialize_with = "places")]
        nodes: Vec<usize>,
    },
    Speed {
        /// Required, so that only an explicit `null` is without a limit.
        #[serde(deserialize_with = "speed")]
        value: Option<f64>,
    },
    Link(LinkControl),
}

/// A change of one or several links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkControl {
    #[serde(deserialize_with = "place")]
    link: usize,
    /// Also the link in the opposite direction.
    #[serde(default)]
    both: bool,
    /// All links of the group.
    #[serde(default)]
    group: bool,
    #[serde(default, deserialize_with = "present")]
    rate: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    delay: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    loss: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    up: Option<bool>,
}

/// Reads a value, also `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let place = number(&Value::deserialize(deserializer)?);
    place.ok_or_else(|| serde::de::Error::custom("link: its number among the links of /network was expected, from 0"))
}

fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let places = value.as_array().and_then(|places| places.iter().map(number).collect());
    places.ok_or_else(|| {
        serde::de::Error::custom("nodes: a list of their numbers among the nodes of /network was expected, from 0")
    })
}

fn number(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// A change of links that a page has made, in the units of scenarios.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkChange {
    /// Names of links, or of groups of them.
    links: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up: Option<bool>,
}

impl fmt::Display for LinkChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { links, rate, delay, loss, up } = self;
        let settings = [("rate", rate), ("delay", delay), ("loss", loss)];
        let settings = settings.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)));
        let up = up.map(|up| if up { "up" } else { "down" }.to_owned());
        let all: Vec<String> = settings.chain(up).collect();
        write!(f, "{} {}", links.join(" and "), all.join(", "))
    }
}

fn speed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value if value.as_f64().is_some_and(|speed| SPEEDS.contains(&speed)) => Ok(value.as_f64()),
        _ => Err(serde::de::Error::custom(format_args!(
            "a speed is a number from {} to {}, or null for as fast as possible",
            SPEEDS.start(),
            SPEEDS.end()
        ))),
    }
}

impl Control {
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let value: Value = serde_json::from_slice(body).map_err(invalid)?;
        if !value.is_object() {
            return Err(invalid(r#"a control is a JSON object, as in {"action":"play"}"#));
        }
        Self::deserialize(value).map_err(invalid)
    }
}

fn invalid(problem: impl ToString) -> Refusal {
    Refusal::Invalid(problem.to_string())
}

/// Reads a value as a scenario has it.
fn read<T: DeserializeOwned>(key: &str, value: Option<Value>) -> Result<Option<T>, Refusal> {
    let read = value.map(T::deserialize).transpose();
    read.map_err(|error| Refusal::Invalid(format!("{key}: {error}")))
}

/// Reads a data rate, or `none` (`null`) of a link without serialisation time.
fn read_rate(value: Option<Value>) -> Result<Option<Option<BitRate>>, Refusal> {
    let problem = match &value {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(None)),
        Some(value) => match value.as_str().map(str::trim) {
            Some("none") => return Ok(Some(None)),
            Some("") => "it is empty",
            _ => match read("rate", Some(value.clone()))? {
                Some(rate) if rate == BitRate::bit(0) => "it is zero; a link that is down sends nothing",
                rate => return Ok(rate.map(Some)),
            },
        },
    };
    Err(Refusal::Invalid(format!(
        "rate: {problem}; write a data rate as in \"30kbit/s\", or \"none\" for a link without transmission time"
    )))
}

impl LinkControl {
    /// Changes the links, all or none.
    pub fn apply(self, emulation: &mut Emulation<'_>) -> Result<LinkChange, Refusal> {
        let (names, links) = self.links(emulation.topology())?;
        if self.rate.is_none() && self.delay.is_none() && self.loss.is_none() && self.up.is_none() {
            return Err(invalid("the change is empty; write at least one of rate, delay, loss and up"));
        }
        let rate = read_rate(self.rate)?;
        let delay: Option<Span> = read("delay", self.delay)?;
        let loss: Option<Loss> = read("loss", self.loss)?;
        if rate.is_some() && links.iter().any(|link| emulation.topology().is_traced(*link)) {
            return Err(Refusal::Invalid("rate: it follows the link's trace; change delay or loss".to_owned()));
        }
        if rate.is_some() || delay.is_some() || loss.is_some() {
            let change = |link: &LinkId| {
                let config = emulation.link_config(*link);
                let name = emulation.topology().link_name(*link).unwrap_or_default();
                let config = config.ok_or_else(|| {
                    Refusal::Invalid(format!(
                        "{name} is a hop of a radio network, without settings; take it down or up"
                    ))
                })?;
                let rate = rate.unwrap_or(config.rate);
                let delay = delay.map_or(config.delay, |delay| delay.0);
                let config = LinkConfig { rate, delay, loss: loss.unwrap_or(config.loss), ..config };
                config.check(name).map_err(invalid)?;
                Ok((*link, config))
            };
            let changes = links.iter().map(change).collect::<Result<Vec<_>, Refusal>>()?;
            for (link, config) in changes {
                emulation.change_link(link, config).map_err(invalid)?;
            }
        }
        if let Some(up) = self.up {
            links.into_iter().try_for_each(|link| emulation.set_link_up(link, up)).map_err(invalid)?;
        }
        let rate = rate.map(|rate| rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate:#}")));
        let delay = delay.map(|delay| format!("{delay:#}"));
        Ok(LinkChange { links: names, rate, delay, loss: loss.map(|loss| loss.to_string()), up: self.up })
    }

    /// Returns the names of the links or their groups, and the links.
    fn links(&self, topology: &Topology) -> Result<(Vec<String>, Vec<LinkId>), Refusal> {
        let count = topology.links().count();
        let (link, name) = topology
            .links()
            .nth(self.link)
            .ok_or_else(|| Refusal::Invalid(format!("link: there are {count}, counted from 0")))?;
        let mut names = vec![name];
        if self.both {
            names.push(opposite(topology, link, name).ok_or_else(|| {
                Refusal::Invalid(format!("both: no link leads back from the end of {name}; leave `both` out"))
            })?);
        }
        let shown = |name: &str| if self.group { group(name) } else { name.to_owned() };
        let names: Vec<String> = names.into_iter().map(shown).collect();
        let links = topology.links().filter(|(_, name)| names.contains(&shown(name))).map(|(link, _)| link).collect();
        Ok((names, links))
    }
}

/// Returns the link back: the other one of two directions, or another link between the same nodes.
fn opposite<'a>(topology: &'a Topology, link: LinkId, name: &str) -> Option<&'a str> {
    let there = name.strip_suffix('>').map(|name| format!("{name}<"));
    let back = there.or_else(|| name.strip_suffix('<').map(|name| format!("{name}>")));
    let of_pair = topology.links().find(|(_, known)| Some(*known) == back.as_deref());
    let ends = topology.ends(link).map(|(from, to)| (to, from));
    of_pair.or_else(|| topology.links().find(|(known, _)| topology.ends(*known) == ends)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        Control::read(body.as_bytes()).expect_err(body).to_string()
    }

    #[test]
    fn controls_are_read_strictly() {
        assert_eq!(Control::read(br#"{"action":"play"}"#), Ok(Control::Play {}));
        assert_eq!(Control::read(br#"{"action":"speed","value":null}"#), Ok(Control::Speed { value: None }));
        assert!(Control::read(br#"{"action":"link","link":3,"up":false}"#).is_ok());
        assert!(problem(r#"{"action":"jump"}"#).contains("unknown variant `jump`, expected one of"));
        assert!(problem(r#"{"action":"play","at":1}"#).contains("unknown field `at`"));
        assert!(problem(r#"{"action":"link","link":3,"queue":"1B"}"#).contains("unknown field `queue`"));
        assert!(problem(r#"{"action":"speed"}"#).contains("missing field `value`"));
        for speed in ["0", "-1", "0.05", "1e9"] {
            let problem = problem(&format!(r#"{{"action":"speed","value":{speed}}}"#));
            assert!(problem.contains("from 0.1 to 1000, or null"), "{problem}");
        }
        assert!(!problem("{").is_empty());
    }

    #[test]
    fn a_link_back_is_of_the_same_pair_or_between_the_same_nodes() {
        let mut topology = Topology::new();
        let [modem, server, logger] = ["modem", "server", "logger"].map(|name| topology.node(name));
        for name in ["wire", "backup"] {
            topology.duplex(name, modem, server, LinkConfig::default());
        }
        topology.link("up", logger, modem, LinkConfig::default());
        topology.link("down", modem, logger, LinkConfig::default());
        topology.link("alone", server, logger, LinkConfig::default());
        let links = |link: usize, both: bool, group: bool| {
            let control = format!(r#"{{"action":"link","link":{link},"both":{both},"group":{group}}}"#);
            let Ok(Control::Link(control)) = Control::read(control.as_bytes()) else { panic!("a link") };
            control.links(&topology).map(|(_, links)| links.iter().map(|link| link.index()).collect::<Vec<_>>())
        };
        assert_eq!(links(1, false, true), Ok(vec![1]));
        assert_eq!(links(2, true, false), Ok(vec![2, 3]));
        assert_eq!(links(5, true, false), Ok(vec![4, 5]));
        let alone = links(6, true, false).expect_err("one direction").to_string();
        assert_eq!(alone, "both: no link leads back from the end of alone; leave `both` out");
    }
}
