//! `kubectl terrace`: kubectl runs a program of this name for it.

fn main() -> std::process::ExitCode {
    terrace_cli::main()
}
