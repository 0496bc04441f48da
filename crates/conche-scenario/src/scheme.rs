//! [`Scheme`]: a controller with its configuration.

use conche_proto::cc::AnyController;
use conche_proto::cc::any::{Named, UnknownController};
use conche_proto::cc::cocoa;
use conche_proto::cc::full_backoff::{CocoaFullBackoff, DefaultFullBackoff};
use conche_proto::cc::units::Factor;
use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::{Effort, NonEmpty, ScenarioError, ensure};
use crate::controllers::known;
use crate::units::Span;

/// A congestion control scheme and its name in results.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// Name in results.
    pub name: String,
    /// Algorithm.
    pub controller: ControllerName,
    /// Initial RTO, for the default, CoCoA and their full-backoff variants.
    pub ack_timeout: Option<Span>,
    /// ACK_RANDOM_FACTOR, for these and Basic RTO.
    pub ack_random_factor: Option<f64>,
    /// Timer that selects the variable backoff factor, for CoCoA and its full-backoff variants.
    #[serde(default, deserialize_with = "vbf")]
    pub vbf: Option<cocoa::Vbf>,
    /// Start of an RTO's idle time, for the same.
    #[serde(default, deserialize_with = "aging")]
    pub aging: Option<cocoa::Aging>,
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
    /// The nodes of a prefix: [`Nodes::prefixes`](crate::network::Nodes::prefixes).
    Prefixes,
}

/// A controller's name, from [`known`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerName {
    name: String,
    controller: AnyController,
}

/// Returns the schemes of an effort: the scenario's, or controllers, which take precedence in a
/// comparison.
///
/// # Errors
/// If a name is unknown; lists the known ones.
pub fn select(own: &[Scheme], effort: &Effort) -> Result<Option<NonEmpty<Scheme>>, ScenarioError> {
    if effort.controllers.is_empty() && effort.also.is_empty() {
        return Ok(None);
    }
    let mut names: Vec<&str> = effort.controllers.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(own.iter().map(|scheme| scheme.name.as_str()));
        let also = effort.also.iter().map(String::as_str).filter(|name| own.iter().all(|scheme| scheme.name != *name));
        names.extend(also);
    }
    let scheme = |name: &str| {
        let (own, controller) = (own.iter().find(|scheme| scheme.name == name), Scheme::of_controller(name));
        match (own, controller) {
            (Some(own), Err(_)) => Ok(own.clone()),
            (Some(own), Ok(_)) if !effort.compares => Ok(own.clone()),
            (_, controller) => controller.map_err(|error| ScenarioError::new("controllers", error)),
        }
    };
    Ok(NonEmpty::new(names.into_iter().map(scheme).collect::<Result<_, _>>()?))
}

impl Scheme {
    /// Returns a scheme with a controller's default configuration.
    ///
    /// # Errors
    /// If the name is unknown; lists the known ones.
    pub fn of_controller(name: &str) -> Result<Self, UnknownController> {
        let controller = ControllerName::new(name)?;
        let name = controller.name.clone();
        Ok(Self {
            name,
            controller,
            ack_timeout: None,
            ack_random_factor: None,
            vbf: None,
            aging: None,
            nstart: None,
            paths: None,
        })
    }

    /// Returns the configured controller.
    ///
    /// # Errors
    /// If the algorithm lacks a configured option, or a value is invalid.
    pub fn build(&self) -> Result<AnyController, ScenarioError> {
        let mut controller = self.controller.controller.clone();
        let (timeout, factor) = match &mut controller {
            AnyController::Default(default) => (Some(&mut default.ack_timeout), Some(&mut default.ack_random_factor)),
            AnyController::DefaultFullBackoff(DefaultFullBackoff { default, .. }) => {
                (Some(&mut default.ack_timeout), Some(&mut default.ack_random_factor))
            }
            AnyController::Cocoa(cocoa) | AnyController::CocoaFullBackoff(CocoaFullBackoff { cocoa, .. }) => {
                (Some(&mut cocoa.ack_timeout), Some(&mut cocoa.ack_random_factor))
            }
            AnyController::Basic(basic) => (None, Some(&mut basic.ack_random_factor)),
            _ => (None, None),
        };
        self.set("ack_timeout", timeout, self.ack_timeout.map(|span| span.0))?;
        self.set("ack_random_factor", factor, self.factor()?)?;
        let (vbf, aging) = match &mut controller {
            AnyController::Cocoa(cocoa) | AnyController::CocoaFullBackoff(CocoaFullBackoff { cocoa, .. }) => {
                (Some(&mut cocoa.vbf), Some(&mut cocoa.aging))
            }
            _ => (None, None),
        };
        self.set("vbf", vbf, self.vbf)?;
        self.set("aging", aging, self.aging)?;
        Ok(controller)
    }

    /// Returns the properties of the algorithm.
    #[must_use]
    pub fn named(&self) -> Option<&'static Named> {
        self.controller.named()
    }

    fn factor(&self) -> Result<Option<Factor>, ScenarioError> {
        let Some(factor) = self.ack_random_factor else { return Ok(None) };
        let problem = format_args!("{factor} is not a factor from 1 to 10; RFC 7252 has 1.5");
        ensure((1.0..=10.0).contains(&factor), self.place("ack_random_factor"), problem)?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1000 to 10000
        Ok(Some(Factor::from_permille((factor * 1000.0).round() as u16)))
    }

    /// Sets an option; without a `place`, the algorithm lacks it.
    fn set<T>(&self, option: &str, place: Option<&mut T>, value: Option<T>) -> Result<(), ScenarioError> {
        let problem = format_args!("the controller `{}` has no such option; leave it out", self.controller.name);
        ensure(place.is_some() || value.is_none(), self.place(option), problem)?;
        if let (Some(place), Some(value)) = (place, value) {
            *place = value;
        }
        Ok(())
    }

    fn place(&self, option: &str) -> String {
        format!("schemes.{}.{option}", self.name)
    }
}

impl ControllerName {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the controller in its default configuration.
    #[must_use]
    pub fn controller(&self) -> AnyController {
        self.controller.clone()
    }

    /// Returns the properties of the algorithm.
    #[must_use]
    pub fn named(&self) -> Option<&'static Named> {
        known().by_name(&self.name).ok()
    }

    fn new(name: &str) -> Result<Self, UnknownController> {
        Ok(Self { name: name.to_owned(), controller: known().by_name(name)?.controller() })
    }
}

impl<'de> Deserialize<'de> for ControllerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

fn vbf<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<cocoa::Vbf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(remote = "cocoa::Vbf", rename_all = "kebab-case")]
    enum Named {
        Current,
        Frozen,
    }
    Named::deserialize(deserializer).map(Some)
}

fn aging<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<cocoa::Aging>, D::Error> {
    #[derive(Deserialize)]
    #[serde(remote = "cocoa::Aging", rename_all = "kebab-case")]
    enum Named {
        Literal,
        SinceActivity,
        Off,
    }
    Named::deserialize(deserializer).map(Some)
}
