//! Where stations stand.

/// A place in the plane, in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// To the east.
    pub x_m: f64,
    /// To the north.
    pub y_m: f64,
}

impl Position {
    /// The place at these coordinates, in metres.
    #[must_use]
    pub const fn metres(x_m: f64, y_m: f64) -> Self {
        Self { x_m, y_m }
    }

    /// The distance to another place, in metres.
    #[must_use]
    pub fn distance_m(self, other: Self) -> f64 {
        libm::hypot(self.x_m - other.x_m, self.y_m - other.y_m)
    }
}
