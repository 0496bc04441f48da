//! Attackers, broken networks and broken clocks, and the limits of their effect.

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
mod slow_application;
mod smallest;
mod supersede;
