//! The router: Terrace's data plane.
fn main() {}
