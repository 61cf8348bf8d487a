//! Sending spans to a collector: OTLP, protobuf over HTTP, with hyper so that no second HTTP stack comes in.
//!
//! The batch processor has its own thread, and this its own small runtime on it: telemetry needs nothing of the
//! program's runtime, not even that it still runs.

use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Runtime;

use crate::InitError;

/// One export takes at most this long.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A collector that is away is reported this often.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// What a collector may answer.
const ANSWER_LIMIT: usize = 64 << 10;

/// An exporter to the collector at base address `endpoint`.
pub(crate) fn exporter(endpoint: &str) -> Result<Reporting, InitError> {
    let refused = |why: String| InitError::Endpoint { endpoint: endpoint.to_owned(), why };
    let uri: Uri = endpoint.parse().map_err(|e: http::uri::InvalidUri| refused(e.to_string()))?;
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(refused("only http:// is supported, collectors are neighbours".into()));
    }
    let address = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let inner = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(Hyper::new().map_err(|e| refused(e.to_string()))?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&address)
        .with_timeout(TIMEOUT)
        .with_retry_policy(opentelemetry_otlp::RetryPolicy::default().with_max_retries(1))
        .build()
        .map_err(|e| refused(e.to_string()))?;
    Ok(Reporting { inner, address, state: Mutex::default() })
}

/// Says once a minute that the collector is away, with its address, and once that it is back.
#[derive(Debug)]
pub(crate) struct Reporting {
    inner: opentelemetry_otlp::SpanExporter,
    address: String,
    state: Mutex<Away>,
}

#[derive(Debug, Default)]
struct Away {
    reported: Option<Instant>,
    lost: usize,
}

impl Reporting {
    fn note(&self, result: &OTelSdkResult, spans: usize) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match result {
            Ok(()) => {
                if state.reported.take().is_some() {
                    tracing::info!(collector = %self.address, lost_spans = state.lost, "the collector is back");
                }
                state.lost = 0;
            }
            Err(error) => {
                state.lost += spans;
                if state.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
                    state.reported = Some(Instant::now());
                    tracing::warn!(
                        collector = %self.address, %error, lost_spans = state.lost,
                        "spans cannot be sent; everything else goes on"
                    );
                }
            }
        }
    }
}

impl SpanExporter for Reporting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.inner.export(batch).await;
        self.note(&result, spans);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

struct Hyper {
    runtime: Option<Runtime>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Hyper {
    fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // No pool: the runtime sleeps between exports, so that it could not see a connection close.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Ok(Self { runtime: Some(runtime), client })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new)).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_LIMIT).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

impl Drop for Hyper {
    fn drop(&mut self) {
        // Not waited for: the last owner may be a thread of the program's own runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Hyper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hyper")
    }
}

impl HttpClient for Hyper {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let runtime = self.runtime.as_ref().ok_or("the exporter was shut down")?;
            // Called on the batch processor's own thread, which is there to wait.
            let within = async { tokio::time::timeout(TIMEOUT, self.send(request)).await };
            runtime.block_on(within).unwrap_or_else(|_| Err("it did not answer in time".into()))
        })
    }
}
