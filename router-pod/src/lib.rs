//! The router: Terrace's data plane.
