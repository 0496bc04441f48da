//! Credential files (OSCORE in the formats of libcoap and aiocoap, certificates) with any bytes are
//! read or refused. Used credentials are usable again, from an unused number on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use conche::oscore::{Keeper, read_map};
use conche::security::Roots;
use tempfile::TempDir;

/// The first byte selects the format; files end at a byte that no text contains.
pub fn run(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let place = TempDir::new().expect("a directory");
    let file = |name: &str, text: &[u8]| {
        let path = place.path().join(name);
        fs::write(&path, text).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        path
    };
    let mut texts = rest.split(|byte| *byte == 0xff);
    let mut next = || texts.next().unwrap_or_default();
    match kind % 4 {
        0 => {
            let keys = file("keys", next());
            let numbers = next();
            if !numbers.is_empty() {
                file("keys.sequence.json", numbers);
            }
            again(&keys);
        }
        1 => {
            for name in ["settings.json", "secret.json", "sequence.json"] {
                let text = next();
                if !text.is_empty() {
                    file(name, text);
                }
            }
            again(&PathBuf::from(place.path()));
        }
        2 => {
            let map = file("map.json", rest);
            for reference in read_map(&map).into_iter().flatten() {
                let _ =
                    Keeper::open(place.path().join("none").join(reference.directory.file_name().unwrap_or_default()));
            }
        }
        _ => {
            let _ = Roots::from_pem(rest);
        }
    }
}

fn again(place: &Path) {
    let Ok(mut keeper) = Keeper::open(place) else { return };
    let Ok(context) = keeper.start() else { return };
    let used = context.next_number();
    keeper.close(&context).expect("the disk is there");
    drop(context);
    let mut keeper = Keeper::open(place).expect("it was opened before");
    // The last number may be used up.
    if let Ok(context) = keeper.start() {
        assert!(context.next_number() >= used, "{} after {used}", context.next_number());
    }
}
