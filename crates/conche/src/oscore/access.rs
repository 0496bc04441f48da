//! Checks that no other user may read credentials, or write or replace their numbers. Old numbers
//! would repeat nonces, which reveals the protected messages.

#[cfg(unix)]
pub(super) use unix::{check_directory, check_numbers, check_secret};

#[cfg(not(unix))]
pub(super) use elsewhere::{check_directory, check_numbers, check_secret};

#[cfg(unix)]
mod unix {
    use std::fs::{self, Metadata};
    use std::io;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::Path;

    use crate::oscore::OpenError;

    const OTHERS: u32 = 0o077;
    const OTHERS_WRITE: u32 = 0o022;
    /// Others may add files to a directory, but not replace its owner's files.
    const STICKY: u32 = 0o1000;

    /// Only the owner may read the file. Each further name would have its own numbers.
    pub(in crate::oscore) fn check_secret(file: &Path) -> Result<(), OpenError> {
        let metadata = fs::metadata(file).map_err(OpenError::io(file))?;
        if metadata.permissions().mode() & OTHERS != 0 {
            return Err(OpenError::Exposed { file: file.to_owned() });
        }
        check_owner(file, &metadata)?;
        check_names(file, &metadata)
    }

    /// Only the owner may write the file with the numbers, or the lock.
    pub(in crate::oscore) fn check_numbers(file: &Path) -> Result<(), OpenError> {
        let metadata = match fs::metadata(file) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(OpenError::io(file)(error)),
        };
        check_write(file, &metadata)?;
        check_owner(file, &metadata)?;
        check_names(file, &metadata)
    }

    /// No other user may replace files in the directory.
    pub(in crate::oscore) fn check_directory(directory: &Path) -> Result<(), OpenError> {
        let metadata = fs::metadata(directory).map_err(OpenError::io(directory))?;
        if metadata.permissions().mode() & STICKY == 0 {
            check_write(directory, &metadata)?;
        }
        check_owner(directory, &metadata)
    }

    fn check_write(path: &Path, metadata: &Metadata) -> Result<(), OpenError> {
        match metadata.permissions().mode() & OTHERS_WRITE {
            0 => Ok(()),
            _ => Err(OpenError::Writable { path: path.to_owned() }),
        }
    }

    fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), OpenError> {
        match metadata.uid() {
            0 => Ok(()),
            owner if owner == nix::unistd::geteuid().as_raw() => Ok(()),
            _ => Err(OpenError::OtherOwner { path: path.to_owned() }),
        }
    }

    fn check_names(file: &Path, metadata: &Metadata) -> Result<(), OpenError> {
        match metadata.nlink() {
            ..=1 => Ok(()),
            names => Err(OpenError::Linked { file: file.to_owned(), names }),
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::path::Path;

    use crate::oscore::OpenError;

    pub(in crate::oscore) fn check_secret(_: &Path) -> Result<(), OpenError> {
        Ok(())
    }

    pub(in crate::oscore) fn check_numbers(_: &Path) -> Result<(), OpenError> {
        Ok(())
    }

    pub(in crate::oscore) fn check_directory(_: &Path) -> Result<(), OpenError> {
        Ok(())
    }
}
