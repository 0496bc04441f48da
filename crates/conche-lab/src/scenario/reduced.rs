//! Small versions of a paper's scenario, for tests.

use super::Scenario;
use crate::papers::anrw18;

/// ANRW'18 with these clients, buffers (by name), schemes and replications only.
pub(crate) fn anrw18(clients: &[u32], buffers: &[&str], schemes: &[&str], replications: u32) -> Scenario {
    let mut lines: Vec<String> = anrw18::SCENARIO.lines().map(str::to_owned).collect();
    lines.retain(|line| {
        let is_buffer = line.trim_start().starts_with("{ name = ");
        !is_buffer || buffers.iter().any(|buffer| line.contains(&format!("\"{buffer}\"")))
    });
    for line in &mut lines {
        if line.starts_with("clients = ") {
            *line = format!("clients = {clients:?}");
        } else if line.starts_with("replications = ") {
            *line = format!("replications = {replications}");
        }
    }
    let scenario = Scenario::from_toml(&lines.join("\n")).expect("a part of a valid scenario");
    scenario.with_schemes(schemes).expect("schemes of the scenario")
}
