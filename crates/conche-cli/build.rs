//! Passes the commit to the command, for the manifests of results. Without a repository or git, the
//! commit is unknown and the build succeeds.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../..");
    // A tarball may be unpacked inside another repository.
    if !root.join(".git").exists() {
        return;
    }
    let Some(commit) = git(root, &["rev-parse", "HEAD"]) else { return };
    println!("cargo::rustc-env=CONCHE_COMMIT={commit}");
    if let Some(changes) = git(root, &["status", "--porcelain", "--untracked-files=no"]) {
        println!("cargo::rustc-env=CONCHE_DIRTY={}", if changes.is_empty() { "false" } else { "true" });
    }
    // A commit changes the log of HEAD; edited sources change the dirty flag.
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path));
    let watched = ["Cargo.lock", "crates", "scenarios"].map(|name| root.join(name));
    for path in log.into_iter().chain(watched).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    // Keeps `git status` from writing to the index.
    let output = Command::new("git").current_dir(root).env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
