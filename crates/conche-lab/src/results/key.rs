//! The name of what was run: `cocoa/random/400/inf`.

use std::fmt;

/// Which scheme's clients, in which cell of the experiment. Keys order results: as the scenario lists them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The scheme of these clients.
    pub scheme: String,
    /// The mix that they were part of, where other schemes' clients ran beside them.
    pub mix: Option<String>,
    /// How the clients work.
    pub workload: String,
    /// How many clients there were, of all schemes.
    pub clients: u32,
    /// The name of the bottleneck's buffer.
    pub buffer: String,
}

/// `scheme/workload/clients/buffer`, and `scheme@mix/workload/clients/buffer` in a mix.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        if let Some(mix) = &self.mix {
            write!(f, "@{mix}")?;
        }
        write!(f, "/{}/{}/{}", self.workload, self.clients, self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_scheme_workload_clients_and_buffer() {
        let key = Key {
            scheme: "cocoa".to_owned(),
            mix: None,
            workload: "random".to_owned(),
            clients: 400,
            buffer: "inf".to_owned(),
        };
        assert_eq!(key.to_string(), "cocoa/random/400/inf");
        let mixed = Key { mix: Some("default+cocoa".to_owned()), ..key };
        assert_eq!(mixed.to_string(), "cocoa@default+cocoa/random/400/inf");
    }
}
