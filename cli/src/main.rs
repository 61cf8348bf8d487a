//! terrace: the command line, also installed as kubectl-terrace.
fn main() {}
