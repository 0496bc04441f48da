//! What an attacker, a broken network or a broken clock does, and what must not come of it.

mod clock;
mod exhaustion;
mod forgery;
mod leaks;
