//! The corpus as it stands in its file. No field goes unread: an unknown one fails.

use serde::Deserialize;
use serde_json::Value;

/// The file.
#[derive(Debug, Deserialize)]
pub struct Corpus {
    pub count: usize,
    pub entries: Vec<Entry>,
}

/// A datagram, or a sequence of them, and what must come of it.
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
    /// What the codec must make of it; the codec's own tests check that.
    #[serde(rename = "decode")]
    _decode: Option<Value>,
    pub expect: Expectation,
    #[serde(default)]
    pub also_accept: Vec<Reaction>,
    /// What the client has on its way, or an OSCORE context.
    pub given: Option<Value>,
    /// Who sends: `S`, whom the client asked, or `A`, somebody else.
    pub src: Option<Address>,
    /// What becomes of the client's request.
    pub outcome: Option<String>,
    /// What of the client's own message is put into the datagram: `mid`, `token`.
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

/// Who sends a datagram.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Address {
    S,
    A,
}

/// A datagram too long to be written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    prefix: String,
    repeat: String,
    count: usize,
    #[serde(default)]
    suffix: String,
}

/// What may and what must not happen.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    #[serde(rename = "level")]
    _level: String,
    #[serde(default)]
    pub accept: Vec<Reaction>,
    /// The index in `accept` of the best reaction.
    #[serde(default)]
    pub preferred: usize,
    #[serde(default)]
    pub must_not: Vec<String>,
}

/// One way to react.
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
        /// Only in the group of OSCORE.
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

/// A datagram of a sequence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub t_ms: u64,
    pub from: Address,
    pub hex: String,
    pub accept: Vec<Reaction>,
    #[serde(rename = "decode")]
    _decode: Value,
    /// The reaction is the same, byte for byte, as that to an earlier step.
    pub identical_to_step: Option<usize>,
}

/// What must hold after a sequence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub handler_calls: Option<std::collections::HashMap<String, u32>>,
    pub deliveries: Option<usize>,
    pub retransmissions_after: Option<usize>,
    /// Only in the group of blocks.
    pub resource_unchanged: Option<String>,
}

impl Entry {
    /// The datagram, as it stands in the file.
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

/// The bytes of hexadecimal digits.
pub fn bytes(hexadecimal: &str) -> Vec<u8> {
    let pairs = hexadecimal.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}
