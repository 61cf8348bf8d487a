//! Lets go of a stream that its client does not read.
//!
//! A response's body is asked for more only while there is room on the way to the client. Whoever reads nothing would so
//! keep all that the body holds, a place at a device and one in `limits.concurrency` among it, for as long as they like.
//! Nobody asks the body then, so a task of its own watches it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// It is looked so often in the time that a client has.
const LOOKS: u32 = 4;

/// What a client that reads again is told by: its connection ends.
#[derive(Debug, thiserror::Error)]
#[error("the client did not read its stream")]
pub struct Unread;

/// A stream that is let go when nobody has asked for its next part for too long.
pub struct Watched<S> {
    kept: Arc<Mutex<Kept<S>>>,
    _watch: AbortOnDropHandle<()>,
}

struct Kept<S> {
    /// None: it was let go.
    stream: Option<Pin<Box<S>>>,
    /// When it gave a part that no other was asked for after.
    given: Option<Instant>,
}

impl<S: Stream<Item = Bytes> + Send + 'static> Watched<S> {
    /// Watches a stream; its client may leave it unread for so long.
    pub fn new(stream: S, patience: Duration) -> Self {
        let kept = Arc::new(Mutex::new(Kept { stream: Some(Box::pin(stream)), given: None }));
        let watch = AbortOnDropHandle::new(tokio::spawn(watch(Arc::clone(&kept), patience)));
        Self { kept, _watch: watch }
    }
}

fn open<S>(kept: &Mutex<Kept<S>>) -> MutexGuard<'_, Kept<S>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn watch<S>(kept: Arc<Mutex<Kept<S>>>, patience: Duration) {
    loop {
        tokio::time::sleep(patience / LOOKS).await;
        let unread = {
            let mut kept = open(&kept);
            let late = kept.given.is_some_and(|given| given.elapsed() >= patience);
            if late { kept.stream.take() } else { None }
        };
        if unread.is_some() {
            tracing::debug!("a client did not read its stream: it is let go");
            return;
        }
    }
}

impl<S: Stream<Item = Bytes>> Stream for Watched<S> {
    type Item = Result<Bytes, Unread>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut kept = open(&self.kept);
        let Some(stream) = kept.stream.as_mut() else { return Poll::Ready(Some(Err(Unread))) };
        let polled = stream.as_mut().poll_next(cx);
        kept.given = matches!(polled, Poll::Ready(Some(_))).then(Instant::now);
        polled.map(|part| part.map(Ok))
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        // The watch is told to end, but may do so a little later.
        let stream = open(&self.kept).stream.take();
        drop(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;

    /// An endless stream, and what is alive as long as it is.
    fn endless() -> (impl Stream<Item = Bytes> + Send + 'static, Arc<()>) {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let part = move |()| {
            let _ = &held;
            Bytes::from_static(b"x")
        };
        (futures::stream::repeat(()).map(part), alive)
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_reads_is_let_go_and_one_that_is_read_slowly_is_not() {
        let (stream, alive) = endless();
        let mut watched = Watched::new(stream, PATIENCE);
        for _ in 0..9 {
            assert!(watched.next().await.unwrap().is_ok());
            tokio::time::advance(PATIENCE - Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(&alive), 2, "it is read");
        }
        let since = Instant::now();
        while Arc::strong_count(&alive) == 2 {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
            assert!(since.elapsed() < PATIENCE, "it is never let go");
        }
        assert!(watched.next().await.unwrap().is_err(), "what is missing is told");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_for_its_tier_is_not_unread() {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let stream = futures::stream::pending::<Bytes>().inspect(move |_| {
            let _ = &held;
        });
        let mut watched = Watched::new(stream, PATIENCE);
        assert!(tokio::time::timeout(PATIENCE * 9, watched.next()).await.is_err());
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(watched);
        assert_eq!(Arc::strong_count(&alive), 1, "dropped at once with its body");
    }
}
