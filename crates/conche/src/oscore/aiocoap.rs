//! aiocoap's formats: a directory with credentials in `settings.json` and `secret.json`, and the
//! map that assigns directories to URIs and clients.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use thiserror::Error;
use zeroize::Zeroize as _;

use super::libcoap::{aead_named, hexadecimal};
use super::{Aead, Credentials, EndId, Hkdf, OpenError};

pub(super) const FILES: [&str; 2] = ["secret.json", "settings.json"];

const SECRET: &str = "secret";

/// Texts may hold a secret, so drop wipes them.
pub(super) struct Items(Map<String, Value>);

impl Deref for Items {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        for value in self.0.values_mut() {
            if let Value::String(text) = value {
                text.zeroize();
            }
        }
    }
}

pub(super) fn items(file: &Path, text: &[u8]) -> Result<Items, OpenError> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(items)) => Ok(Items(items)),
        Ok(_) => Err(OpenError::wrong(file, None, "it must be a JSON object")),
        Err(error) => Err(OpenError::wrong(file, Some(error.line()), error.to_string())),
    }
}

pub(super) fn has_secret(items: &Items) -> bool {
    items.keys().any(|key| bare(key) == SECRET)
}

fn bare(key: &str) -> &str {
    key.strip_suffix("_hex").or_else(|| key.strip_suffix("_ascii")).unwrap_or(key)
}

#[derive(Debug, Error)]
enum ItemError<'a> {
    #[error("{0} is there twice")]
    Repeated(&'a str),
    #[error("there is no {0}_hex or {0}_ascii")]
    Missing(&'static str),
    #[error("{0} must be {0}_hex or {0}_ascii")]
    Encoding(&'static str),
    #[error("{0}_hex must be an even number of hexadecimal digits")]
    Hexadecimal(&'static str),
    #[error("{0}_ascii must be ASCII text")]
    Ascii(&'static str),
    #[error("{0} must be a text")]
    Text(&'static str),
    #[error("{name} has {length} bytes: {max} at most", max = EndId::LONGEST)]
    Id { name: &'static str, length: usize },
    #[error("the algorithm {0} is not supported")]
    Algorithm(&'a str),
    #[error("the hash function {0} is not supported")]
    Hash(&'a str),
    #[error("window must be 1 to {max}", max = Credentials::LARGEST_WINDOW)]
    Window,
}

pub(super) fn credentials(directory: &Path, files: &[Items]) -> Result<Credentials, OpenError> {
    let wrong = |error: ItemError<'_>| OpenError::wrong(directory, None, error.to_string());
    let mut read = Items(Map::new());
    for (key, value) in files.iter().flat_map(|items| items.iter()) {
        if read.keys().any(|other| bare(other) == bare(key)) {
            return Err(wrong(ItemError::Repeated(bare(key))));
        }
        read.0.insert(key.clone(), value.clone());
    }
    let id = |name: &'static str| {
        let id = read.required(name)?;
        EndId::new(&id).ok_or(ItemError::Id { name, length: id.len() })
    };
    let read_all = || {
        let aead = match read.text("algorithm")? {
            None => Aead::default(),
            Some(name) => aead_named(name).and_then(Aead::from_number).ok_or(ItemError::Algorithm(name))?,
        };
        let hkdf = match read.text("kdf-hashfun")? {
            None | Some("sha256") => Hkdf::Sha256,
            Some("sha512") => Hkdf::Sha512,
            Some(name) => return Err(ItemError::Hash(name)),
        };
        let replay_window = match read.0.get("window") {
            None => Credentials::LARGEST_WINDOW,
            Some(size) => {
                let size = size.as_u64().and_then(|size| u16::try_from(size).ok());
                let size = size.filter(|size| (1..=Credentials::LARGEST_WINDOW).contains(size));
                size.ok_or(ItemError::Window)?
            }
        };
        Ok(Credentials {
            master_salt: read.bytes("salt")?.unwrap_or_default(),
            id_context: read.bytes("id-context")?.map(Vec::into_boxed_slice),
            aead,
            hkdf,
            replay_window,
            ..Credentials::new(read.required(SECRET)?, id("sender-id")?, id("recipient-id")?)
        })
    };
    read_all().map_err(wrong)
}

impl Items {
    /// Returns bytes given as `NAME_hex` or `NAME_ascii`.
    fn bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>, ItemError<'static>> {
        if let Some(value) = self.0.get(&format!("{name}_hex")) {
            let bytes = value.as_str().and_then(hexadecimal);
            return bytes.map(Some).ok_or(ItemError::Hexadecimal(name));
        }
        if let Some(value) = self.0.get(&format!("{name}_ascii")) {
            let text = value.as_str().filter(|text| text.is_ascii());
            return text.map(|text| Some(text.as_bytes().to_vec())).ok_or(ItemError::Ascii(name));
        }
        match self.0.contains_key(name) {
            true => Err(ItemError::Encoding(name)),
            false => Ok(None),
        }
    }

    fn required(&self, name: &'static str) -> Result<Vec<u8>, ItemError<'static>> {
        self.bytes(name)?.ok_or(ItemError::Missing(name))
    }

    fn text(&self, name: &'static str) -> Result<Option<&str>, ItemError<'static>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or(ItemError::Text(name)),
        }
    }
}

/// An entry of a credentials map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// A URI pattern such as `coap://example.com/*`, or the name of a server's client with a
    /// leading colon.
    pub key: String,
    /// The directory with the credentials.
    pub directory: PathBuf,
}

/// Reads aiocoap's credentials map: `{"coap://example.com/*": {"oscore": {"basedir": "client/"}}}`.
/// Skips entries without OSCORE. A string with a leading colon refers to the entry of that name.
/// Directories are relative to the file's.
///
/// # Errors
///
/// [`OpenError`].
pub fn read_map(file: impl AsRef<Path>) -> Result<Vec<Reference>, OpenError> {
    let file = file.as_ref();
    let text = std::fs::read(file).map_err(OpenError::io(file))?;
    let items = items(file, &text)?;
    let base = file.parent().unwrap_or(Path::new(""));
    let mut references = Vec::new();
    for (key, value) in items.iter() {
        let entry = match value.as_str() {
            Some(name) => items.get(name).ok_or_else(|| OpenError::wrong(file, None, format!("there is no {name}")))?,
            None => value,
        };
        let Some(oscore) = entry.get("oscore") else { continue };
        let directory = oscore.get("basedir").or_else(|| oscore.get("contextfile")).and_then(Value::as_str);
        let directory =
            directory.ok_or_else(|| OpenError::wrong(file, None, format!("{key}: \"oscore\" needs \"basedir\"")))?;
        references.push(Reference { key: key.clone(), directory: base.join(directory) });
    }
    Ok(references)
}
