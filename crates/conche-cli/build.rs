//! Tells the command which commit it is built from, for the manifests of results. Where there is no repository, as in a tarball,
//! or no git, nothing is known, and nothing fails.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../..");
    // Another repository that a tarball was unpacked in is not ours.
    if !root.join(".git").exists() {
        return;
    }
    let Some(commit) = git(root, &["rev-parse", "HEAD"]) else { return };
    println!("cargo::rustc-env=CONCHE_COMMIT={commit}");
    if let Some(changes) = git(root, &["status", "--porcelain", "--untracked-files=no"]) {
        println!("cargo::rustc-env=CONCHE_DIRTY={}", if changes.is_empty() { "false" } else { "true" });
    }
    // A commit changes the log of HEAD, and another state of the sources is built from changed ones.
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path));
    let watched = ["Cargo.lock", "crates", "scenarios"].map(|name| root.join(name));
    for path in log.into_iter().chain(watched).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What git prints, if it succeeds.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    // Looking at the state must not write anything.
    let output = Command::new("git").current_dir(root).env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
