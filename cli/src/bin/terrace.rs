//! `terrace`.

fn main() -> std::process::ExitCode {
    terrace_cli::main()
}
