//! Spans: to a collector over OTLP, to a file, or nowhere; and W3C trace context in and out of HTTP headers.

use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SimpleSpanProcessor,
};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, filter};

use crate::sampling::Sampling;
use crate::spans::{Processors, Spans};
use crate::{InitError, Options, collector, trace_file};

/// Spans that wait for the collector at most; more are dropped, the program never waits.
const QUEUE: usize = 4096;
/// How long a finished span waits for company.
const DELAY: std::time::Duration = std::time::Duration::from_millis(500);

pub(crate) fn provider(options: &Options) -> Result<Option<(SdkTracerProvider, Spans)>, InitError> {
    if options.otlp_endpoint.is_none() && options.trace_file.is_none() {
        return Ok(None);
    }
    let processors = Processors::default();
    if let Some(endpoint) = &options.otlp_endpoint {
        let exporter = collector::exporter(endpoint)?;
        let batch = BatchConfigBuilder::default().with_max_queue_size(QUEUE).with_scheduled_delay(DELAY).build();
        processors.add(BatchSpanProcessor::builder(exporter).with_batch_config(batch).build());
    }
    if let Some(path) = &options.trace_file {
        processors.add(SimpleSpanProcessor::new(trace_file::TraceFile::open(path, options.service)?));
    }
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampling::percent(options.sample_percent))))
        .with_resource(resource(options.service))
        .with_span_processor(processors.clone())
        .build();
    Ok(Some((provider, Spans::new(processors, options.service))))
}

/// The layer that turns Terrace's own spans (no library's) into OpenTelemetry's.
pub(crate) fn layer<S>(provider: &SdkTracerProvider, service: &'static str) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(service))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        // The hint, too: without it every library's finer events are looked at one by one, only to be left out.
        .with_filter(
            filter::filter_fn(|metadata| {
                metadata.target().starts_with("terrace") && *metadata.level() <= tracing::Level::INFO
            })
            .with_max_level_hint(filter::LevelFilter::INFO),
        )
}

fn resource(service: &'static str) -> Resource {
    let from_env = [("k8s.pod.name", "POD_NAME"), ("k8s.pod.uid", "POD_UID"), ("k8s.node.name", "NODE_NAME")]
        .into_iter()
        .filter_map(|(attribute, name)| Some(KeyValue::new(attribute, std::env::var(name).ok()?)));
    Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(from_env)
        .build()
}

/// The trace context that a caller sent; empty when there is none.
pub fn extract(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers))
}

/// Makes `span` a child of the span that the caller sent, if any. Before the span is entered for the first time.
pub fn set_parent(span: &Span, headers: &HeaderMap) {
    // Fails when traces go nowhere: then there is nothing to link.
    let _ = span.set_parent(extract(headers));
}

/// The trace that `span` belongs to, in hex; none when traces go nowhere.
pub fn trace_id(span: &Span) -> Option<String> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| context.trace_id().to_string())
}

/// The trace that `span` belongs to, in hex, if it is kept.
pub fn kept_id(span: &Span) -> Option<String> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_sampled().then(|| context.trace_id().to_string())
}

/// Notes that something happened in `span` now: only in the trace, never in the logs.
pub fn event(span: &Span, name: &'static str) {
    span.add_event(name, Vec::new());
}

/// Names `span` after it has started, once its name is known: a span that has started ignores the field `otel.name`.
pub fn rename(span: &Span, name: String) {
    span.context().span().update_name(name);
}

/// Has `span` end now rather than when it was last entered: for one that is carried along by a stream.
pub fn end_now(span: &Span) {
    span.in_scope(|| ());
}
