//! Small persistent files, read up to a bound and replaced atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Returns the first `bytes` bytes of a file; none if it is missing. Fails for files that could
/// block, such as pipes.
pub(crate) fn read_up_to(path: &Path, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    let is_file = match fs::metadata(path) {
        Ok(metadata) => metadata.is_file(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(read),
        Err(error) => return Err(error),
    };
    if !is_file {
        return Err(no_file());
    }
    File::open(path)?.take(u64::try_from(bytes).unwrap_or(u64::MAX)).read_to_end(&mut read)?;
    Ok(read)
}

/// Readers see the old or the new content. Both content and name are on the disk afterwards.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(no_file)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut temporary = name.to_os_string();
    temporary.push(format!(".{:016x}.tmp", u64::from_ne_bytes(random)));
    let temporary = directory.join(temporary);
    let replaced = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced?;
    sync_directory(directory)
}

/// Without it a power cut may bring the old file back.
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory).and_then(|directory| directory.sync_all())
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The content is private, so only the owner may read it.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no file")
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_synchronised_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let gone = directory.path().join("gone");
        assert_eq!(sync_directory(&gone).expect_err("there is none").kind(), io::ErrorKind::NotFound);
        let file = directory.path().join("numbers");
        replace(&file, b"1").expect("it can be written");
        replace(&file, b"2").expect("it can be replaced");
        assert_eq!(fs::read(&file).expect("it is there"), b"2");
        assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_in_a_directory_that_may_not_be_read_is_not_taken_for_replaced() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("numbers");
        let mode = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        mode(0o300);
        // Root can read it regardless.
        let is_readable = File::open(directory.path()).is_ok();
        assert_eq!(replace(&file, b"1").is_ok(), is_readable);
        mode(0o700);
    }
}
