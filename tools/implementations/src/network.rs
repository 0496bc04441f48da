//! The networks, as scenarios in `tools/implementations/networks`.

use clap::ValueEnum;

use crate::stack::Stack;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Network {
    Anrw18,
    /// Many processes: for stacks with small ones.
    #[value(name = "anrw18-100")]
    Anrw18Hundred,
    Anrw18Fifth,
    Gprs,
    LossyLan,
    Nat,
    Outage,
    /// Loses everything: for timeouts and MAX_RETRANSMIT.
    Silent,
}

impl Network {
    /// Name of its file, and in arguments.
    pub fn word(self) -> &'static str {
        match self {
            Self::Anrw18 => "anrw18",
            Self::Anrw18Hundred => "anrw18-100",
            Self::Anrw18Fifth => "anrw18-fifth",
            Self::Gprs => "gprs",
            Self::LossyLan => "lossy-lan",
            Self::Nat => "nat",
            Self::Outage => "outage",
            Self::Silent => "silent",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Anrw18 => "20 clients, 60 kbit/s up, 30 kbit/s down",
            Self::Anrw18Hundred => "100 clients, 60 kbit/s up, 30 kbit/s down",
            Self::Anrw18Fifth => "20 clients, 60 kbit/s up, 6 kbit/s down",
            Self::Gprs => "20 clients share a GPRS modem that stalls",
            Self::LossyLan => "10 clients on a LAN that loses 10 % in each direction",
            Self::Nat => "10 clients behind a NAT that restarts three times",
            Self::Outage => "10 clients behind an LTE link that fails for 10 s",
            Self::Silent => "10 clients on a link that loses everything",
        }
    }

    pub fn file(self) -> String {
        format!("tools/implementations/networks/{}.toml", self.word())
    }

    /// Number of clients in the file.
    pub fn clients(self) -> usize {
        match self {
            Self::Anrw18Hundred => 100,
            Self::Anrw18 | Self::Anrw18Fifth | Self::Gprs => 20,
            Self::LossyLan | Self::Nat | Self::Outage | Self::Silent => 10,
        }
    }

    /// Number of exchanges of each client in the file.
    pub fn exchanges(self) -> usize {
        match self {
            Self::Anrw18 | Self::Anrw18Hundred | Self::Anrw18Fifth | Self::Gprs => 10,
            Self::LossyLan | Self::Nat | Self::Outage => 20,
            Self::Silent => 1,
        }
    }

    /// Whether a machine of two cores can run the clients of a stack.
    pub fn suits(self, stack: Stack) -> bool {
        self != Self::Anrw18Hundred || stack.is_small()
    }

    /// Whether a simulation of the file has the workload of the programs.
    pub fn is_simulated(self) -> bool {
        !matches!(self, Self::Nat | Self::Silent)
    }
}

#[cfg(test)]
mod tests {
    use tool_support::Project;

    use super::*;

    #[test]
    fn numbers_are_those_of_the_files() {
        let project = Project::find().expect("a checkout");
        for network in Network::value_variants() {
            let text = project.read(&network.file()).expect("a file");
            for line in [
                format!("name = \"{}\"", network.word()),
                format!("title = \"{}\"", network.title()),
                format!("{{ name = \"client\", count = {} }}", network.clients()),
                format!("exchanges = {}\n", network.exchanges()),
            ] {
                assert!(text.contains(&line), "{}: {line}", network.word());
            }
        }
    }
}
