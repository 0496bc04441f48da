//! IEEE 802.15.4 against closed forms and other simulators: each test opens with its topology and ends in numeric bounds.
//!
//! | module | what is compared |
//! |---|---|
//! | [`timing`] | the time that one station needs for a frame |
//! | [`star`] | what saturated stars deliver, with ns-3 |
//! | [`reception`] | bit error and packet reception ratios |
//! | [`hidden`] | collisions of stations that do not hear each other |
//! | [`media`] | what each medium makes of overlapping frames, of links and of fading |
//! | [`motes`] | transfers between motes that find their routes |
//! | [`stacks`] | queues, retries and backoffs of Contiki and TinyOS |
//! | [`contikimac`] | duty-cycled receivers and those who wake them |
//! | [`frames`] | frames of hosts that route by themselves |
//! | [`fragments`] | datagrams in several frames; control traffic |
//! | [`exchange`] | CoAP over radio and wires; equal seeds, equal runs; conservation |
//! | [`routing`] | the quality of links, trees of RPL, and packets on them |
//! | [`refused`] | networks that make no sense; packets that do not fit |
//!
//! The tests are deterministic: a bound in standard errors says how probable a failure was when the seed was chosen.

mod contikimac;
mod exchange;
mod fragments;
mod frames;
mod hidden;
mod media;
mod motes;
mod net;
mod reception;
mod refused;
mod routing;
mod stacks;
mod star;
mod timing;
