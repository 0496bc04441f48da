//! Where stations stand.

/// A place in the plane, in metres.
///
/// ```toml
/// position = [3, 4.5]
/// ```
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

    /// The place at this distance from the origin, in this direction: radians from the east towards the north.
    #[must_use]
    pub fn polar(distance_m: f64, angle: f64) -> Self {
        Self::metres(distance_m * libm::cos(angle), distance_m * libm::sin(angle))
    }

    /// The distance to another place, in metres.
    #[must_use]
    pub fn distance_m(self, other: Self) -> f64 {
        libm::hypot(self.x_m - other.x_m, self.y_m - other.y_m)
    }
}
