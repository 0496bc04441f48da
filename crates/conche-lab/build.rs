//! Lists the networks of `scenarios/networks`, so that adding a file adds a network.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

const DIRECTORY: &str = "scenarios/networks";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DIRECTORY}");
    let mut names = Vec::new();
    for entry in fs::read_dir(DIRECTORY)? {
        let file = entry?.path();
        let name = file.file_stem().and_then(|name| name.to_str());
        names.extend(name.filter(|_| file.extension().is_some_and(|of| of == "toml")).map(str::to_owned));
    }
    names.sort_unstable();
    let mut list = String::from("&[\n");
    for name in names {
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{DIRECTORY}/{name}.toml\"))");
        // Writing to a String cannot fail.
        let _ = writeln!(list, "    Network {{ name: {name:?}, scenario: {text} }},");
    }
    list.push_str("]\n");
    let directory = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&directory).join("networks.rs"), list)
}
