//! `conche new-controller NAME`: writes a crate with a congestion controller, and, behind a feature,
//! the `conche` command.

use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use conche::cc::any::Controllers;

use crate::error::UsageError;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the controller and its crate: lower-case letters, digits and dashes, as in `my-rto`.
    name: String,
    /// Directory to create; by default the name.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Checkout of conche to depend on; by default the one around the directory, otherwise the
    /// repository.
    #[arg(long, value_name = "DIR")]
    conche: Option<PathBuf>,
    /// Start from the full `Controller` trait, for a window or pacing, instead of a rule for the
    /// retransmission timer.
    #[arg(long)]
    full: bool,
}

const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.in")),
    ("README.md", include_str!("template/README.md")),
    ("src/lib.rs", include_str!("template/src/lib.rs")),
    ("src/main.rs", include_str!("template/src/main.rs")),
    ("tests/README.md", include_str!("template/tests/README.md")),
    ("tests/conformance.rs", include_str!("template/tests/conformance.rs")),
    ("tests/vectors.json", include_str!("template/tests/vectors.json")),
    ("tests/vectors.rs", include_str!("template/tests/vectors.rs")),
];

const FULL_LIB: &str = include_str!("template/full/lib.rs");

pub fn run(args: &Args, controllers: &Controllers) -> anyhow::Result<()> {
    let name = Name::new(&args.name, controllers)?;
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from(&name.dashed));
    if directory.exists() {
        let taken = directory.display();
        return Err(UsageError(format!("{taken} exists already; choose another place with --directory")).into());
    }
    let source = Source::find(args.conche.as_deref(), &directory)?;
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let source = source.seen_from(&directory)?;
    for (file, text) in FILES {
        let path = directory.join(file);
        let text = if args.full && *file == "src/lib.rs" { FULL_LIB } else { text };
        let text = source.fill_in(&name.fill_in(&without_anchors(text)));
        write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print_next_steps(&name, &directory).context("cannot write to standard output")
}

/// Removes the comments that mark the guide's quotes.
fn without_anchors(text: &str) -> String {
    let is_anchor = |line: &&str| line.trim_start().starts_with("// ANCHOR");
    text.split_inclusive('\n').filter(|line| !is_anchor(line)).collect()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

fn print_next_steps(name: &Name, directory: &Path) -> io::Result<()> {
    let Name { dashed, camel, .. } = name;
    let directory = directory.display();
    writeln!(
        io::stdout().lock(),
        "{directory}/ holds {camel}, a controller named {dashed}.\n\
         \n\
         cd {directory}\n\
         cargo test                                               # conformance suite, tests/vectors.json\n\
         cargo run --release --features lab -- reproduce --quick  # every paper, with {dashed}\n\
         cargo run --release --features lab -- compare            # ranks {dashed} among conche's controllers\n\
         cargo run --release --features lab -- get --cc {dashed} coap://localhost/\n\
         \n\
         The algorithm is in src/lib.rs."
    )
}

#[derive(Debug, PartialEq, Eq)]
enum Source {
    Checkout(PathBuf),
    Repository,
}

impl Source {
    fn find(given: Option<&Path>, directory: &Path) -> anyhow::Result<Self> {
        let is_checkout = |place: &Path| place.join("crates/conche-cli/Cargo.toml").is_file();
        if let Some(given) = given {
            let shown = given.display();
            if !is_checkout(given) {
                let problem = format!("--conche: {shown} is no checkout of conche: it has no crates/conche-cli");
                return Err(UsageError(problem).into());
            }
            return Ok(Self::Checkout(fs::canonicalize(given).with_context(|| shown.to_string())?));
        }
        let place = std::path::absolute(directory).context("the current directory is gone")?;
        let checkout = place.ancestors().find(|place| is_checkout(place));
        Ok(checkout.map_or(Self::Repository, |place| Self::Checkout(place.to_owned())))
    }

    /// Relative to `directory`, unless they share only the root.
    fn seen_from(self, directory: &Path) -> anyhow::Result<Self> {
        let Self::Checkout(checkout) = self else { return Ok(self) };
        let canonical = |place: &Path| fs::canonicalize(place).with_context(|| place.display().to_string());
        let (directory, checkout) = (canonical(directory)?, canonical(&checkout)?);
        let is_shared = |(one, other): &(Component<'_>, Component<'_>)| one == other;
        let shared = directory.components().zip(checkout.components()).take_while(is_shared);
        let shared: PathBuf = shared.map(|(component, _)| component).collect();
        if shared.parent().is_none() {
            return Ok(Self::Checkout(checkout));
        }
        let up = directory.strip_prefix(&shared).map_or(0, |below| below.components().count());
        let down = checkout.strip_prefix(&shared).unwrap_or(&checkout);
        Ok(Self::Checkout(std::iter::repeat_n("..", up).collect::<PathBuf>().join(down)))
    }

    fn fill_in(&self, manifest: &str) -> String {
        ["conche-cc", "conche-cli", "conche-conformance"].iter().fold(manifest.to_owned(), |manifest, name| {
            let place = match self {
                Self::Checkout(checkout) => format!("path = {:?}", checkout.join("crates").join(name)),
                Self::Repository => format!("git = {:?}", env!("CARGO_PKG_REPOSITORY")),
            };
            manifest.replace(&format!("{name} from CONCHE"), &place)
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Name {
    /// Crate and tables: `my-rto`.
    dashed: String,
    /// Library: `my_rto`.
    snake: String,
    /// Type: `MyRto`.
    camel: String,
}

impl Name {
    fn new(name: &str, controllers: &Controllers) -> Result<Self, UsageError> {
        let refused = |why: &str| Err(UsageError(format!("{name:?} cannot be a controller's name: {why}")));
        let words: Vec<&str> = name.split('-').collect();
        let plain =
            |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !words.iter().all(plain) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return refused("use lower-case letters, digits and single dashes, with a letter first, such as my-rto");
        }
        if controllers.by_name(name).is_ok() {
            return refused("one of conche's controllers has this name");
        }
        if RESERVED.split_whitespace().any(|reserved| reserved == name) {
            return refused("it is reserved by Rust, Cargo or the new crate");
        }
        let capitalised = |word: &&str| word[..1].to_ascii_uppercase() + &word[1..];
        Ok(Self {
            dashed: name.to_owned(),
            snake: name.replace('-', "_"),
            camel: words.iter().map(capitalised).collect(),
        })
    }

    fn fill_in(&self, text: &str) -> String {
        text.replace("twice-peak", &self.dashed).replace("twice_peak", &self.snake).replace("TwicePeak", &self.camel)
    }
}

/// Names that would not compile: keywords, dependencies of the new crate, names in its code.
const RESERVED: &str = "\
    abstract as async await become box break const continue crate do dyn else enum extern final \
    fn for gen if impl in let loop macro match mod move mut override priv pub ref return self \
    static struct super trait try type typeof unsafe unsized use virtual where while yield true \
    false test core std alloc proc-macro build deps examples incremental conche conche-cc \
    conche-cli conche-conformance conche-lab conche-netsim conche-pcapng conche-proto abandoned \
    acknowledged admission controller duration expired factor features group instant load micros \
    path rto-rule sent snapshot submission timer";

#[cfg(test)]
mod tests;
