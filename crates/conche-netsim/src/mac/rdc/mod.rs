//! Radio duty cycling: how one attempt gets a frame over the air, and when the receiver is on.
//!
//! | file | what it holds |
//! |---|---|
//! | `always_on` | attempts to receivers that are always on (Contiki's NullRDC, TinyOS's default) |
//! | `reception` | what a station does with the frames that it receives: copies, acknowledgments |

mod always_on;
mod reception;
