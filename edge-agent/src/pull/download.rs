//! Attempts to bring the partial file to its end.

use std::time::{Duration, Instant};

use http::{Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt as _;

use super::address::{self, shown};
use super::answer::{self, Head};
use super::cache::write_error;
use super::client::{Ask, Client, causes, unreachable};
use super::conduct::Conduct;
use super::error::PullError;
use super::pace::Pace;
use super::patience::Patience;
use super::place::Place;
use super::room::{self, Bounds};
use super::{Progress, Source};

/// Waits between attempts begin here and double up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// An attempt that gains less than this is followed by a longer wait, like one that gains nothing.
const GAIN: u64 = 64 << 10;
/// Where the source does not say how long the file is, room is made in steps of this.
const STEP: u64 = 1 << 20;

/// One file on its way.
pub(super) struct Download<'a, F> {
    source: &'a Source,
    url: Uri,
    client: Client,
    place: &'a Place,
    observe: &'a F,
    pace: Pace,
    patience: Patience,
    conduct: Conduct,
    /// Whether all bytes of the partial file came in one answer: then a wrong digest is the source's.
    one_piece: bool,
}

impl<'a, F: Fn(Progress)> Download<'a, F> {
    pub(super) fn new(source: &'a Source, place: &'a Place, observe: &'a F) -> Result<Self, PullError> {
        Ok(Self {
            source,
            url: address::parse(&source.url)?,
            client: Client::new(source.ca_file.as_deref(), source.stall())?,
            place,
            observe,
            pace: Pace::new(source.bytes_per_second),
            patience: Patience::new(source.patience, source.bytes_per_second, 0, Instant::now()),
            conduct: Conduct::default(),
            one_piece: false,
        })
    }

    /// The source as messages name it.
    pub(super) fn name(&self) -> String {
        shown(&self.url)
    }

    pub(super) fn one_piece(&self) -> bool {
        self.one_piece
    }

    /// Attempts until the partial file is whole. Its digest is not known yet.
    ///
    /// # Errors
    /// [`PullError`]; after [`PullError::Unreachable`] another attempt was not worth it any more.
    pub(super) async fn run(&mut self) -> Result<(), PullError> {
        let mut wait = FIRST_WAIT;
        let (limit, held) = (self.source.patience, self.place.partial_bytes());
        self.patience = Patience::new(limit, self.source.bytes_per_second, held, Instant::now());
        self.conduct = Conduct::default();
        loop {
            let before = self.patience.furthest();
            self.conduct.attempt();
            let error = match self.attempt().await {
                Ok(()) => return Ok(()),
                Err(error @ PullError::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            let furthest = self.patience.furthest();
            if furthest - before >= GAIN {
                wait = FIRST_WAIT;
            }
            if self.patience.ends(wait, Instant::now()) {
                return Err(match (self.conduct.told(furthest, limit), error) {
                    (Some(told), PullError::Unreachable { url, why }) => {
                        PullError::Unreachable { url, why: format!("{why}; {told}") }
                    }
                    (_, error) => error,
                });
            }
            tracing::warn!(%error, retry_in_ms = wait.as_millis() as u64, "the model could not be downloaded");
            (self.observe)(Progress::Retrying { why: error.to_string() });
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn attempt(&mut self) -> Result<(), PullError> {
        let token = self.source.token()?;
        let from = self.place.partial_bytes();
        let validator = self.place.validator().filter(|_| from > 0);
        (self.observe)(Progress::Connecting { from });
        let ask = Ask { url: &self.url, token: token.as_deref(), from, validator: validator.as_ref() };
        let answer = self.client.get(ask).await?;
        match answer::read(answer.status(), answer.headers(), from, validator.as_ref()) {
            Head::Body { begin, whole } => {
                self.conduct.body(from, begin, whole);
                self.body(answer, begin, whole).await
            }
            Head::Complete => Ok(()),
            Head::Restart(why) => {
                self.conduct.unfit();
                self.place.discard_partial().map_err(|e| PullError::file("remove", &self.place.partial(), &e))?;
                Err(unreachable(&self.url, format!("{why}; it is asked for all of it again")))
            }
            Head::Busy => Err(unreachable(&self.url, format!("HTTP {}", answer.status()))),
            Head::Refused(hint) => Err(refused(&self.url, answer.status(), hint)),
        }
    }

    async fn body(&mut self, answer: Response<Incoming>, begin: u64, whole: Option<u64>) -> Result<(), PullError> {
        let place = self.place;
        let partial = place.partial();
        let spare = self.source.spare;
        let failed = |e: &std::io::Error| write_error(place, e, whole, spare);
        if begin == 0 {
            place.discard_partial().map_err(|e| PullError::file("remove", &partial, &e))?;
        }
        self.one_piece = begin == 0;
        let mut reserved = begin;
        if let Some(whole) = whole {
            self.reserve(whole, Some(whole)).await?;
            reserved = whole;
        }
        if begin == 0 {
            // After what came before is gone and before the first byte: the note is never of another version.
            place.note_validator(answer::validator(answer.headers()).as_ref()).map_err(|e| failed(&e))?;
        }
        let open = tokio::fs::OpenOptions::new().create(true).append(true).open(&partial).await;
        let mut file = open.map_err(|e| failed(&e))?;
        let (mut body, mut have) = (answer.into_body(), begin);
        let broken = loop {
            let stall = self.source.stall();
            let frame = match tokio::time::timeout(stall, body.frame()).await {
                Ok(None) => break None,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(e))) => break Some(causes(&e)),
                Err(_) => break Some(format!("no more bytes within {} s", stall.as_secs_f32())),
            };
            let Some(data) = frame.data_ref() else { continue };
            have += data.len() as u64;
            let now = Instant::now();
            self.patience.came(data.len(), have, now);
            if have > reserved {
                reserved = self.next_reservation(have);
                self.reserve(reserved, whole).await?;
            }
            file.write_all(data).await.map_err(|e| failed(&e))?;
            // Written, not only handed over: whoever takes this download over counts on what was reported.
            file.flush().await.map_err(|e| failed(&e))?;
            (self.observe)(Progress::Downloading { bytes: have, of: whole });
            if self.patience.trickles(now) && whole.is_none_or(|whole| have < whole) {
                break Some(self.patience.too_slow());
            }
            let wait = self.pace.wait(data.len(), Instant::now());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        };
        // What came is kept: the next attempt goes on from there.
        match (broken, whole) {
            (Some(why), _) => Err(unreachable(&self.url, why)),
            (None, Some(whole)) if have < whole => {
                Err(unreachable(&self.url, format!("it ends after {have} of {whole} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// A bit more than is needed now, but never more than the limit for the sake of that bit.
    fn next_reservation(&self, have: u64) -> u64 {
        let step = have.next_multiple_of(STEP);
        self.source.cache_limit.map_or(step, |limit| step.min(limit)).max(have)
    }

    async fn reserve(&self, size: u64, whole: Option<u64>) -> Result<(), PullError> {
        let (place, bounds) = (self.place.clone(), Bounds { limit: self.source.cache_limit, spare: self.source.spare });
        let reserved = tokio::task::spawn_blocking(move || room::reserve(&place, bounds, size, whole)).await;
        reserved.unwrap_or_else(|e| Err(PullError::Configuration(format!("making room in the cache failed: {e}"))))
    }
}

fn refused(url: &Uri, status: StatusCode, hint: &'static str) -> PullError {
    PullError::NotFound { url: shown(url), status: status.as_u16(), hint }
}
