//! What an attacker, a broken network or a broken clock does, and what must not come of it.

mod addresses;
mod amplification;
mod clock;
mod exhaustion;
mod fairness;
mod flood;
mod forgery;
mod hashing;
mod leaks;
mod pings;
mod resets;
mod sizes;
mod smallest;
mod supersede;
mod waiting;
