//! The scenario: what `scenarios/wiopt12.toml` holds.

use serde::Deserialize;

use crate::experiment::Effort;
use crate::scenario::{AtLeastOne, NonEmpty, SCHEMA, ScenarioError, Scheme, select};
use crate::units::{Size, Span};

/// A grid of motes, and transfers between them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format that the file is written in.
    pub schema: u32,
    /// A short name, which the results carry.
    pub name: String,
    /// `wiopt12`.
    pub model: String,
    /// What it is about, in a line.
    pub title: String,
    /// Where all random numbers but the testbed's come from.
    pub seed: u64,
    /// A transfer that takes longer, in virtual time, is an error.
    pub time_limit: Span,
    /// Where the motes are.
    pub testbed: Testbed,
    /// How their signals spread.
    pub radio: Radio,
    /// How they share the channel.
    pub mac: Mac,
    /// How they find routes.
    pub routing: Routing,
    /// What is sent.
    pub transfer: Transfer,
    /// Transfers over frozen routes.
    #[serde(rename = "static")]
    pub fixed: Fixed,
    /// Transfers over routes that are looked for.
    pub dynamic: Dynamic,
    /// What is varied beside the window.
    pub variations: Variations,
    /// Retransmission timers.
    pub schemes: NonEmpty<Scheme>,
    /// What a first impression runs instead.
    pub quick: Quick,
}

/// A grid of motes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// Rows of motes.
    pub rows: AtLeastOne,
    /// Motes in a row.
    pub columns: AtLeastOne,
    /// From one to the next, in metres.
    pub pitch_m: f64,
    /// Where the shadowing, the routes of the static scenario and the pairs of the dynamic one come from.
    pub seed: u64,
}

/// The parameters of [`Sinr`](conche_netsim::radio::Sinr), with log-distance path loss.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are the medium's")]
pub struct Radio {
    pub tx_power_dbm: f64,
    pub reference_loss_db: f64,
    pub path_loss_exponent: f64,
    pub shadowing_sigma_db: f64,
    pub noise_dbm: f64,
    pub sensitivity_dbm: f64,
    pub interference_floor_dbm: f64,
    pub cca_threshold_dbm: f64,
    pub transition_middle_db: f64,
    pub transition_width_db: f64,
}

/// How motes share the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mac {
    /// How often a frame is sent again, where that is not varied.
    pub retries: u8,
    /// Before the first backoff of a frame.
    pub load: Span,
    /// After a frame was received.
    pub unload: Span,
    /// TinyOS's backoff: [`TinyOs`](conche_netsim::mac::TinyOs).
    pub tinyos: TinyOs,
    /// Binary exponential backoff: [`BinaryExponential`](conche_netsim::mac::BinaryExponential).
    pub beb: Beb,
}

/// TinyOS's backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are the MAC's")]
pub struct TinyOs {
    pub initial_jiffies: (u16, u16),
    pub congestion_jiffies: (u16, u16),
}

/// Binary exponential backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are the MAC's")]
pub struct Beb {
    pub window_symbols: u32,
    pub max_doublings: u8,
    pub max_busy: u8,
}

/// How motes find routes: [`AodvConfig`](conche_netsim::routing::aodv::AodvConfig) and its
/// [`LqiMap`](conche_netsim::routing::aodv::LqiMap).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are the protocol's")]
pub struct Routing {
    pub reply_wait: Span,
    pub net_traversal_time: Span,
    pub rreq_retries: u8,
    pub forward_jitter: Span,
    pub net_diameter: u8,
    pub lqi: (f64, f64),
    pub lqi_at_snr_db: (f64, f64),
    pub delivery_ratio: NonEmpty<(f64, f64)>,
}

/// A route metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Fewer hops.
    HopCount,
    /// The product of link delivery ratios.
    PathDr,
}

/// What acknowledgments mean: see [`Acknowledgments`](conche_netsim::transport::tcp::Acknowledgments).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledgments {
    /// All before this one.
    Cumulative,
    /// This one.
    Positive,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// How many segments.
    pub segments: AtLeastOne,
    /// Of a segment.
    pub payload: Size,
    /// Network and transport.
    pub header: Size,
    /// MHR and FCS.
    pub mac_header: Size,
    /// For a segment that has arrived at its end, in transport and application.
    pub processing: Span,
    /// No timer is shorter.
    pub min_rto: Span,
    /// Of one segment, before the transfer is aborted.
    pub max_timeouts: u8,
    /// Where they are not varied.
    pub acknowledgments: Acknowledgments,
    /// The timers where they are not varied.
    pub scheme: String,
}

/// Transfers over frozen routes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// As many routes of each length, and one transfer over each.
    pub replications: AtLeastOne,
    /// How routes are found.
    pub metric: Metric,
    /// Lengths of routes.
    pub hops: NonEmpty<u8>,
    /// Limits of the congestion window.
    pub windows: NonEmpty<u16>,
}

/// Transfers over routes that are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dynamic {
    /// How often each pair has its transfer.
    pub replications: AtLeastOne,
    /// How many pairs there are.
    pub pairs: AtLeastOne,
    /// Limits of the congestion window.
    pub windows: NonEmpty<u16>,
    /// Where it is not varied.
    pub metric: Metric,
}

/// What is varied beside the window.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variations {
    /// Retries of the MAC.
    pub retries: NonEmpty<u8>,
    /// With these windows in the static scenario.
    pub retries_windows: NonEmpty<u16>,
    /// And with this one in the dynamic scenario.
    pub retries_dynamic_window: u16,
    /// Windows with which the timers are compared.
    pub schemes_windows: NonEmpty<u16>,
    /// Windows with which the acknowledgments are compared.
    pub positive_windows: NonEmpty<u16>,
}

/// What a first impression runs instead.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are those of the full run")]
pub struct Quick {
    pub replications: AtLeastOne,
    pub dynamic_replications: AtLeastOne,
    pub pairs: AtLeastOne,
    pub hops: NonEmpty<u8>,
    pub windows: NonEmpty<u16>,
    pub dynamic_windows: NonEmpty<u16>,
}

impl Scenario {
    /// Reads a scenario and checks it.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Changes how much is run, and of which timers.
    ///
    /// # Errors
    /// If a controller is unknown.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        let quick = self.quick.clone();
        let replications = |full: AtLeastOne, quick: AtLeastOne| {
            AtLeastOne::new(effort.replications(full.get(), quick.get())).unwrap_or(full)
        };
        self.fixed.replications = replications(self.fixed.replications, quick.replications);
        self.dynamic.replications = replications(self.dynamic.replications, quick.dynamic_replications);
        if effort.quick {
            self.fixed.hops = quick.hops;
            for windows in [&mut self.fixed.windows, &mut self.variations.positive_windows] {
                windows.clone_from(&quick.windows);
            }
            self.dynamic.pairs = quick.pairs.min(self.dynamic.pairs);
            self.dynamic.windows = quick.dynamic_windows;
        }
        self.seed = effort.seed.unwrap_or(self.seed);
        let mut effort = effort.clone();
        if !effort.controllers.is_empty() && !effort.controllers.contains(&self.transfer.scheme) {
            // All but the comparison of timers keeps its own.
            effort.controllers.push(self.transfer.scheme.clone());
        }
        if let Some(schemes) = select(&self.schemes, &effort)? {
            self.schemes = schemes;
        }
        self.validate()
    }

    /// How much will be run.
    #[must_use]
    pub fn extent(&self) -> String {
        let (fixed, dynamic) = (self.fixed.replications, self.dynamic.replications);
        format!("{fixed} routes of each length and {dynamic} × {} pairs", self.dynamic.pairs)
    }

    /// The scheme of this name.
    #[must_use]
    pub fn scheme(&self, name: &str) -> Option<&Scheme> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    fn validate(&self) -> Result<(), ScenarioError> {
        let wrong = |place: &str, problem: String| Err(ScenarioError::new(place, problem));
        if self.schema != SCHEMA {
            return wrong("schema", format!("this conche reads scenarios of schema {SCHEMA}, not {}", self.schema));
        }
        let motes = u64::from(self.testbed.rows.get()) * u64::from(self.testbed.columns.get());
        if !(2..=1000).contains(&motes) {
            return wrong("testbed", format!("{motes} motes; there must be from 2 to 1000"));
        }
        if !(0.01..=1000.0).contains(&self.testbed.pitch_m) {
            return wrong("testbed.pitch_m", format!("{} is not between 0.01 m and 1 km", self.testbed.pitch_m));
        }
        let width = self.radio.transition_width_db;
        if !(0.01..=100.0).contains(&width) {
            return wrong("radio.transition_width_db", format!("{width} is not between 0.01 dB and 100 dB"));
        }
        if u64::from(self.dynamic.pairs.get()) > motes * (motes - 1) {
            return wrong("dynamic.pairs", format!("{motes} motes do not make {} pairs", self.dynamic.pairs));
        }
        let Transfer { payload, header, mac_header, max_timeouts, scheme, .. } = &self.transfer;
        if header.0 < 10 {
            return wrong(
                "transfer.header",
                format!("{header} does not hold addresses and numbers; at least 10B does"),
            );
        }
        if payload.0 + header.0 + mac_header.0 > 127 {
            return wrong("transfer.payload", format!("{payload} with its headers does not fit into a frame of 127B"));
        }
        if *max_timeouts == 0 {
            return wrong("transfer.max_timeouts", "0 timeouts; at least 1".to_owned());
        }
        if self.scheme(scheme).is_none() {
            return wrong("transfer.scheme", format!("there is no scheme `{scheme}`"));
        }
        let windows = [&self.fixed.windows, &self.dynamic.windows, &self.variations.retries_windows];
        if windows.into_iter().flat_map(|windows| windows.iter()).any(|window| *window == 0) {
            return wrong("windows", "a window of 0 segments sends nothing; at least 1".to_owned());
        }
        self.schemes.iter().try_for_each(|scheme| scheme.build().map(drop))
    }
}
