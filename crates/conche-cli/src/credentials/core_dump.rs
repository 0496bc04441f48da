//! Core dumps, which would write keys to disk.

/// Turns off core dumps of this process. On Linux this also keeps other processes of the same user
/// from reading its memory.
pub fn disable() {
    // An error leaves the system's setting, which the user may have changed on purpose.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_dumpable(false);
    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
}
