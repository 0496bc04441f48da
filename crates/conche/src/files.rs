//! Small files that outlive the program: read as far as is wanted, and replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// The first so many bytes of a file; none if it is not there. Whatever else has its name, such as a pipe, could keep us waiting.
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

/// Puts a file in the place of another one, by a file beside it that takes its name, so that whoever reads it sees the old one or
/// the new one. It is on the disk then.
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
        // It may not have been made.
        let _ = fs::remove_file(&temporary);
    }
    replaced?;
    // The name lasts once its directory is on the disk, which not every system lets us ask for.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

/// Writes a file that is not there yet, to the disk. It tells whom somebody talks to, so nobody else may read it.
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
