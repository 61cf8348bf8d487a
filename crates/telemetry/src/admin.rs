//! The admin port: `/livez`, `/readyz` with reasons, `/metrics`. Plain, and never any content.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Metrics;

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Whether a program is alive and ready, and if not, why. Clones are the same.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Checks>>);

#[derive(Default)]
struct Checks {
    ready: Vec<(&'static str, Check)>,
    live: Vec<(&'static str, Check)>,
}

impl Health {
    /// Ready and alive until a check says otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition of being ready: `check` gives the reason why not, without content.
    pub fn readiness(&self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.lock().ready.push((name, Box::new(check)));
    }

    /// Adds a condition of being alive.
    pub fn liveness(&self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.lock().live.push((name, Box::new(check)));
    }

    /// Adds a condition of being ready that is opened and closed by hand; closed with `reason` at first.
    pub fn gate(&self, name: &'static str, reason: impl Into<String>) -> Gate {
        let gate = Gate(Arc::new(Mutex::new(Some(reason.into()))));
        let seen = gate.clone();
        self.readiness(name, move || seen.reason().map_or(Ok(()), Err));
        gate
    }

    /// Why it is not ready, one line a reason; none: it is. What is not alive is not ready either.
    pub fn not_ready(&self) -> Option<String> {
        let checks = self.lock();
        failures(checks.ready.iter().chain(&checks.live))
    }

    /// Why it is not alive.
    pub fn not_alive(&self) -> Option<String> {
        failures(self.lock().live.iter())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Checks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failures<'a>(checks: impl Iterator<Item = &'a (&'static str, Check)>) -> Option<String> {
    let failed: Vec<String> =
        checks.filter_map(|(name, check)| check().err().map(|reason| format!("{name}: {reason}\n"))).collect();
    (!failed.is_empty()).then(|| failed.concat())
}

/// One condition of being ready, see [`Health::gate`].
#[derive(Clone)]
pub struct Gate(Arc<Mutex<Option<String>>>);

impl Gate {
    /// It holds.
    pub fn open(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// It does not, because of this.
    pub fn close(&self, reason: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }

    /// Why it does not hold; none: it holds.
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The admin routes, for programs that add their own.
pub fn router(health: Health, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(|State((health, _)): State<(Health, Metrics)>| async move { verdict(health.not_alive()) }))
        .route(
            "/readyz",
            get(|State((health, _)): State<(Health, Metrics)>| async move { verdict(health.not_ready()) }),
        )
        .route(
            "/metrics",
            get(|State((_, metrics)): State<(Health, Metrics)>, given: HeaderMap| async move { exposed(&metrics, &given) }),
        )
        .with_state((health, metrics))
}

/// Metrics in the format that is asked for: OpenMetrics, with exemplars, for whoever accepts it; else Prometheus text.
pub fn exposed(metrics: &Metrics, given: &HeaderMap) -> impl IntoResponse + use<> {
    let accepts = given.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (kind, text) = if accepts.into_iter().any(|kinds| kinds.contains("application/openmetrics-text")) {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text())
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", metrics.plain_text())
    };
    ([(header::CONTENT_TYPE, kind)], text)
}

fn verdict(failed: Option<String>) -> impl IntoResponse {
    match failed {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons),
    }
}

/// Serves the admin port until `end`, which a program cancels last: probes still ask while it drains.
pub async fn serve(listener: TcpListener, app: Router, end: CancellationToken) {
    if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(end.cancelled_owned()).await {
        tracing::error!(%error, "the admin server ended");
    }
}

/// Why a program cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({flag}): {source}; choose another address or stop what uses it")]
pub struct BindError {
    /// The flag that names the address.
    pub flag: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub source: std::io::Error,
}

/// Binds `address`, which `flag` gave.
///
/// # Errors
/// Names both, for example when the port is in use.
pub async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError { flag, address, source })
}
