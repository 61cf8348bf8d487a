//! Ending in order: the first SIGTERM or SIGINT asks, the second does not ask.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT. A second signal ends the process at once.
///
/// # Errors
/// When the system refuses signal handlers.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        for attempt in 0.. {
            let code = tokio::select! {
                _ = terminate.recv() => 143,
                _ = interrupt.recv() => 130,
            };
            if attempt > 0 {
                std::process::exit(code);
            }
            tracing::info!("shutting down; a second signal ends at once");
            cancelled.cancel();
        }
    });
    Ok(token)
}

/// Has the system send SIGTERM to this process when its parent ends: a killed `terrace up` leaves nothing running.
///
/// # Errors
/// When the system refuses, or the parent has ended already.
pub fn end_with_parent() -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    match rustix::process::getppid() {
        Some(parent) if parent != rustix::process::Pid::INIT => Ok(()),
        _ => Err(std::io::Error::other("the parent has ended already")),
    }
}
