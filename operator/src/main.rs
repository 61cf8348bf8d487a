//! The operator: watches the kinds, applies children, serves snapshots, folds reports into status.
fn main() {}
