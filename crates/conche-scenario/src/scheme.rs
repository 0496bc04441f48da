//! [`Scheme`]: a controller with its configuration.

use conche_proto::cc::any::{ConfigurationError, Controllers, Named};
use conche_proto::cc::parameters::Value;
use conche_proto::cc::{AnyController, Controller};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Table;

use super::{Effort, NonEmpty, ScenarioError};
use crate::units::Span;

/// A congestion control scheme and its name in results.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// Name in results.
    pub name: String,
    /// Algorithm.
    pub controller: ControllerName,
    /// Initial RTO: the controller's parameter of this name, as the three below.
    pub ack_timeout: Option<Span>,
    /// ACK_RANDOM_FACTOR.
    pub ack_random_factor: Option<f64>,
    /// Timer that selects the variable backoff factor.
    pub vbf: Option<String>,
    /// Start of an RTO's idle time.
    pub aging: Option<String>,
    /// NSTART, in place of the endpoints'.
    pub nstart: Option<u16>,
    /// Peers that share path state.
    pub paths: Option<Paths>,
}

/// The peers that share path state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paths {
    /// All ports of a node.
    Hosts,
    /// The nodes of a prefix: [`Nodes::prefixes`](crate::Nodes::prefixes).
    Prefixes,
}

/// A controller's name with its settings, `cocoa:weak_k=1`. Those of a read
/// [`Scenario`](crate::Scenario) are valid in its `controllers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerName(String);

/// Returns the scenario's schemes, or an effort's controllers.
///
/// # Errors
/// If a name is unknown; lists the known ones.
pub fn select(
    own: &[Scheme],
    effort: &Effort,
    controllers: &Controllers,
) -> Result<Option<NonEmpty<Scheme>>, ScenarioError> {
    if effort.controllers.is_empty() && effort.also.is_empty() {
        return Ok(None);
    }
    let mut names: Vec<&str> = effort.controllers.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(own.iter().map(|scheme| scheme.name.as_str()));
        let also = effort.also.iter().map(String::as_str).filter(|name| own.iter().all(|scheme| scheme.name != *name));
        names.extend(also);
    }
    let scheme = |name: &str| -> Result<Scheme, ScenarioError> {
        let (own, controller) =
            (own.iter().find(|scheme| scheme.name == name), Scheme::of_controller(name, controllers));
        let scheme = match (own, controller) {
            (Some(own), Err(_)) => own.clone(),
            (Some(own), Ok(_)) if !effort.compares => own.clone(),
            (_, controller) => controller.map_err(|error| ScenarioError::new("controllers", error))?,
        };
        Ok(if effort.compares { scheme.with_permitted_nstart(controllers) } else { scheme })
    };
    Ok(NonEmpty::new(names.into_iter().map(scheme).collect::<Result<_, _>>()?))
}

impl Scheme {
    /// Returns the scheme of a controller and its settings, such as `cocoa:weak_k=1`.
    ///
    /// # Errors
    /// If the name, a parameter or a value is unknown; lists the known ones.
    pub fn of_controller(name: &str, controllers: &Controllers) -> Result<Self, ConfigurationError> {
        let controller = ControllerName(name.to_owned());
        controller.build(controllers)?;
        Ok(Self {
            name: name.to_owned(),
            controller,
            ack_timeout: None,
            ack_random_factor: None,
            vbf: None,
            aging: None,
            nstart: None,
            paths: None,
        })
    }

    /// Uses NSTART 1 for a controller that measures no RTT (RFC 7252 §4.7).
    fn with_permitted_nstart(self, controllers: &Controllers) -> Self {
        let measures_rtt = self.build(controllers).map_or(true, |controller| controller.measures_rtt());
        Self { nstart: self.nstart.or((!measures_rtt).then_some(1)), ..self }
    }

    /// Returns the configured controller.
    ///
    /// # Errors
    /// If the name is unknown, the algorithm lacks a configured option, or a value is invalid.
    pub fn build(&self, controllers: &Controllers) -> Result<AnyController, ScenarioError> {
        let place = |option: &str| format!("schemes.{}.{option}", self.name);
        let refused = |error| ScenarioError::new(place("controller"), error);
        let (named, mut controller) = controllers.configured(&self.controller.0).map_err(refused)?;
        let options = [
            ("ack_timeout", self.ack_timeout.map(|span| Value::Span(span.0).to_string())),
            ("ack_random_factor", self.ack_random_factor.map(|factor| factor.to_string())),
            ("vbf", self.vbf.clone()),
            ("aging", self.aging.clone()),
        ];
        for (option, value) in options {
            let Some(value) = value else { continue };
            named.set(&mut controller, option, &value).map_err(|error| ScenarioError::new(place(option), error))?;
        }
        Ok(controller)
    }
}

impl ControllerName {
    /// Returns the name with its settings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the controller.
    ///
    /// # Errors
    /// If the name, a parameter or a value is unknown; lists the known ones.
    pub fn build(&self, controllers: &Controllers) -> Result<AnyController, ConfigurationError> {
        controllers.configured(&self.0).map(|(_, controller)| controller)
    }

    /// Returns the properties of the algorithm.
    #[must_use]
    pub fn named<'a>(&self, controllers: &'a Controllers) -> Option<&'a Named> {
        controllers.by_name(self.0.split(':').next().unwrap_or_default().trim()).ok()
    }
}

impl<'de> Deserialize<'de> for ControllerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Some(text),
            toml::Value::Table(table) => text_of(&table),
            _ => None,
        };
        text.map(Self).ok_or_else(|| de::Error::custom(EXPECTED))
    }
}

const EXPECTED: &str = "write a controller as \"cocoa\" or as { cocoa = { weak_k = 1 } }";

/// Formats `{ cocoa = { weak_k = 1 } }` as `cocoa:weak_k=1`.
fn text_of(controller: &Table) -> Option<String> {
    let mut entries = controller.iter();
    let (Some((name, toml::Value::Table(settings))), None) = (entries.next(), entries.next()) else { return None };
    let settings: Option<Vec<String>> =
        settings.iter().map(|(name, value)| Some(format!("{name}={}", scalar(value)?))).collect();
    let settings = settings?;
    Some(if settings.is_empty() { name.clone() } else { format!("{name}:{}", settings.join(",")) })
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}
