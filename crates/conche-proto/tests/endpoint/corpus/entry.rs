//! The file format of the corpus. Unknown fields are errors.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub struct Corpus {
    pub count: usize,
    pub entries: Vec<Entry>,
}

/// A datagram or a sequence of datagrams, and the expected reaction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub id: String,
    pub group: String,
    pub name: String,
    /// `server`, `client` or `dtls-server`.
    pub role: String,
    /// `unicast` or `multicast`; sequences are unicast.
    pub dst: Option<String>,
    pub hex: Option<String>,
    #[serde(rename = "gen")]
    pub recipe: Option<Recipe>,
    pub len: Option<usize>,
    /// The codec's tests check it.
    #[serde(rename = "decode")]
    _decode: Option<Value>,
    pub expect: Expectation,
    #[serde(default)]
    pub also_accept: Vec<Reaction>,
    /// An outstanding request, or an OSCORE context.
    pub given: Option<Value>,
    /// `S` for the client's server, `A` for another host.
    pub src: Option<Address>,
    pub outcome: Option<String>,
    /// Parts of the client's own message to be inserted: `mid`, `token`.
    #[serde(default)]
    pub binds: Vec<String>,
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(rename = "final")]
    pub end: Option<End>,
    #[serde(rename = "ref")]
    pub reference: String,
    pub why: String,
    #[serde(rename = "note")]
    _note: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Address {
    S,
    A,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    prefix: String,
    repeat: String,
    count: usize,
    #[serde(default)]
    suffix: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    #[serde(rename = "level")]
    _level: String,
    #[serde(default)]
    pub accept: Vec<Reaction>,
    /// Index into `accept`.
    #[serde(default)]
    pub preferred: usize,
    #[serde(default)]
    pub must_not: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reaction {
    Silent,
    Rst {
        hex: String,
    },
    EmptyAck {
        hex: String,
    },
    Response {
        /// `ACK`, `NON|CON`.
        #[serde(rename = "type")]
        ty: String,
        code: String,
        prefix: Option<String>,
        token: Option<String>,
        /// Only in the OSCORE group.
        oscore_protected: Option<bool>,
        #[serde(rename = "delay_ms")]
        _delay_ms: Option<Value>,
        #[serde(rename = "note")]
        _note: Option<String>,
    },
    Dtls {
        content_type: u8,
        handshake_type: u8,
    },
    Any {
        #[serde(rename = "note")]
        _note: Option<String>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub t_ms: u64,
    pub from: Address,
    pub hex: String,
    pub accept: Vec<Reaction>,
    #[serde(rename = "decode")]
    _decode: Value,
    pub identical_to_step: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub handler_calls: Option<std::collections::HashMap<String, u32>>,
    pub deliveries: Option<usize>,
    pub retransmissions_after: Option<usize>,
    /// Only in the group of block-wise transfer.
    pub resource_unchanged: Option<String>,
}

impl Entry {
    pub fn datagram(&self) -> Vec<u8> {
        let datagram = match (&self.hex, &self.recipe) {
            (Some(hex), None) => bytes(hex),
            (None, Some(recipe)) => recipe.datagram(),
            _ => panic!("{}: either hex or gen", self.id),
        };
        assert_eq!(Some(datagram.len()), self.len, "{}", self.id);
        datagram
    }
}

impl Recipe {
    fn datagram(&self) -> Vec<u8> {
        [bytes(&self.prefix), bytes(&self.repeat).repeat(self.count), bytes(&self.suffix)].concat()
    }
}

pub fn bytes(hexadecimal: &str) -> Vec<u8> {
    let pairs = hexadecimal.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}
