//! Ending in order: the first SIGTERM, SIGINT or SIGHUP asks, the second does not ask.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long threads are waited for that still do something when all is done. Looking up a name may hold one for a
/// minute while DNS does not answer, and nobody wants to know any more.
const LAST: Duration = Duration::from_millis(500);

/// Does the work of a whole process, on as many threads as there are cores, and ends soon after it.
///
/// # Errors
/// When the system gives no threads.
pub fn block_on<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(LAST);
    Ok(result)
}

/// A token that is cancelled by the first SIGTERM, SIGINT or SIGHUP (see [`Hangup`]). A second signal ends the process at once.
///
/// # Errors
/// When the system refuses signal handlers.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = Hangup::listen()?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        for attempt in 0.. {
            let code = tokio::select! {
                _ = terminate.recv() => 143,
                _ = interrupt.recv() => 130,
                () = hangup.recv() => 129,
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

/// SIGHUP, which a program gets when its terminal goes: unless it was started to ignore that (`nohup`).
#[derive(Debug)]
pub struct Hangup(Option<Signal>);

impl Hangup {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system refuses signal handlers.
    pub fn listen() -> std::io::Result<Hangup> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if ignored(&status) { Ok(Hangup(None)) } else { signal(SignalKind::hangup()).map(|s| Hangup(Some(s))) }
    }

    /// Resolves at the next one; never if it is ignored.
    pub async fn recv(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// Whether a process of this status (`/proc/…/status`) ignores SIGHUP, which is number 1.
fn ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_hangup_that_nohup_had_ignored_stays_ignored() {
        assert!(ignored("Name:\tx\nSigIgn:\t0000000000001001\n"));
        assert!(!ignored("Name:\tx\nSigIgn:\t0000000000001000\n"));
        assert!(!ignored(""));
    }

    #[test]
    fn a_thread_that_waits_for_nothing_does_not_hold_up_the_end() {
        let (hold, held) = mpsc::channel::<()>();
        let begun = Instant::now();
        let (started, starts) = tokio::sync::oneshot::channel();
        let work = async {
            tokio::task::spawn_blocking(move || {
                let _ = started.send(());
                held.recv_timeout(Duration::from_secs(60))
            });
            starts.await.unwrap();
            7
        };
        assert_eq!(block_on(work).unwrap(), 7);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        drop(hold);
    }
}
