//! Logs, traces, metrics, the admin server and orderly shutdown, the same in every program.
