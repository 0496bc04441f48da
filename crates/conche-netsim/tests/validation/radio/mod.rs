//! IEEE 802.15.4 against closed forms and other simulators.

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
