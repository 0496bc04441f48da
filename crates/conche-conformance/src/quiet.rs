//! Catches panics without their messages: a failing check panics for each plan that shrinking tries.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` without panic messages of this thread. Other threads print theirs.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if IS_QUIET.get() {
                PLACE.set(foreign_place(panic));
            } else {
                before(panic);
            }
        }));
    });
    let _restored = Restored(IS_QUIET.replace(true));
    work()
}

/// Runs `work`, and returns the message of its panic.
pub(crate) fn panic_message(work: impl FnOnce()) -> Option<String> {
    let payload = quietly(|| panic::catch_unwind(AssertUnwindSafe(work))).err()?;
    let text = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or("it panicked").to_owned(),
    };
    Some(text + &place())
}

/// Returns the place of the last silenced panic, as in `, at src/lib.rs:7`, and forgets it; empty
/// for this crate's assertions.
pub(crate) fn place() -> String {
    PLACE.take().map(|place| format!(", at {place}")).unwrap_or_default()
}

fn foreign_place(panic: &PanicHookInfo<'_>) -> Option<String> {
    let own = file!().trim_end_matches("quiet.rs");
    let location = panic.location().filter(|location| !location.file().starts_with(own))?;
    Some(format!("{}:{}", location.file(), location.line()))
}

struct Restored(bool);

impl Drop for Restored {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}
