//! Spans that are made once they have ended.
//!
//! A program that knows only at a request's end whether its trace is kept (an error is, whatever the share) notes little
//! while the request runs, and makes spans of its notes then: what is not kept costs next to nothing. What decides at the
//! beginning uses `tracing` ([`crate::traces`]). Both come out of the same exporters.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{Event, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanEvents, SpanLinks, SpanProcessor};

pub use opentelemetry::KeyValue;
pub use opentelemetry::trace::{SpanContext, SpanKind};

/// Where a program's finished spans go. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processors(Arc<RwLock<Vec<Box<dyn SpanProcessor>>>>);

impl Processors {
    pub(crate) fn add(&self, processor: impl SpanProcessor + 'static) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(processor));
    }

    fn each(&self, what: impl Fn(&dyn SpanProcessor) -> OTelSdkResult) -> OTelSdkResult {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().try_for_each(|processor| what(&**processor))
    }
}

impl SpanProcessor for Processors {
    fn on_start(&self, span: &mut Span, context: &Context) {
        for processor in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            processor.on_start(span, context);
        }
    }

    fn on_end(&self, span: SpanData) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, others)) = all.split_last() {
            others.iter().for_each(|processor| processor.on_end(span.clone()));
            last.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.each(|processor| processor.force_flush())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.each(|processor| processor.shutdown_with_timeout(timeout))
    }

    fn set_resource(&mut self, resource: &Resource) {
        for processor in self.0.write().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            processor.set_resource(resource);
        }
    }
}

/// Takes spans that have ended. Clones are the same.
#[derive(Debug, Clone)]
pub struct Spans {
    processors: Processors,
    scope: Arc<InstrumentationScope>,
}

/// A span that has ended. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its name, of low cardinality.
    pub name: Cow<'static, str>,
    /// Its kind.
    pub kind: SpanKind,
    /// Who it is.
    pub context: SpanContext,
    /// Under which span; one that is not valid: under none.
    pub parent: SpanContext,
    /// When it began.
    pub start_us: u64,
    /// When it ended.
    pub end_us: u64,
    /// What is known of it, without any content.
    pub attributes: Vec<KeyValue>,
    /// What happened in it, and when.
    pub events: Vec<(&'static str, u64)>,
    /// Whether it failed by this side's fault, or another's that this one called.
    pub failed: bool,
}

impl Spans {
    pub(crate) fn new(processors: Processors, service: &'static str) -> Self {
        Self { processors, scope: Arc::new(InstrumentationScope::builder(service).build()) }
    }

    /// Exports a span, whether its trace was sampled or is kept for what became of it.
    pub fn send(&self, span: Ended) {
        let time = |us| UNIX_EPOCH + Duration::from_micros(us);
        let Ended { name, kind, context, parent, start_us, end_us, attributes, events, failed } = span;
        let mut happened = SpanEvents::default();
        happened.events = events.into_iter().map(|(name, us)| Event::new(name, time(us), Vec::new(), 0)).collect();
        self.processors.on_end(SpanData {
            span_context: SpanContext::new(
                context.trace_id(),
                context.span_id(),
                TraceFlags::SAMPLED,
                false,
                context.trace_state().clone(),
            ),
            parent_span_id: parent.span_id(),
            parent_span_is_remote: parent.is_remote(),
            span_kind: kind,
            name,
            start_time: time(start_us),
            end_time: time(end_us.max(start_us)),
            attributes,
            dropped_attributes_count: 0,
            events: happened,
            links: SpanLinks::default(),
            status: if failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: (*self.scope).clone(),
        });
    }
}

/// The span that a caller sent; not valid when it sent none.
pub fn remote(headers: &HeaderMap) -> SpanContext {
    if headers.contains_key("traceparent") {
        crate::traces::extract(headers).span().span_context().clone()
    } else {
        SpanContext::NONE
    }
}

/// A span of a new trace.
pub fn root(trace: u128, span: u64, sampled: bool) -> SpanContext {
    // All zeros is no id.
    let (trace, span) = (TraceId::from(trace.max(1)), SpanId::from(span.max(1)));
    SpanContext::new(trace, span, flags(sampled), false, TraceState::NONE)
}

/// A span below another one.
pub fn child(parent: &SpanContext, span: u64) -> SpanContext {
    let span = SpanId::from(span.max(1));
    SpanContext::new(parent.trace_id(), span, parent.trace_flags(), false, parent.trace_state().clone())
}

fn flags(sampled: bool) -> TraceFlags {
    if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED }
}

/// Writes a span into headers, for the next hop (W3C Trace Context, level 1); one that is not valid is not written.
///
/// By hand, since every request needs it twice, kept or not: the SDK's propagator formats number by number, which was half
/// of what a trace costs that is not kept.
pub fn inject(context: &SpanContext, headers: &mut HeaderMap) {
    inject_parent(context, headers);
    let state = context.trace_state().header();
    if let (true, false, Ok(value)) = (context.is_valid(), state.is_empty(), HeaderValue::from_str(&state)) {
        headers.insert(const { HeaderName::from_static("tracestate") }, value);
    }
}

/// The same without what vendors keep in a trace's state: for who asked, who has it.
pub fn inject_parent(context: &SpanContext, headers: &mut HeaderMap) {
    if !context.is_valid() {
        return;
    }
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    write(&context.trace_id().to_bytes(), &mut text[3..35]);
    write(&context.span_id().to_bytes(), &mut text[36..52]);
    write(&[context.trace_flags().to_u8()], &mut text[53..]);
    if let Ok(mut value) = HeaderValue::from_bytes(&text) {
        // Each is new, so HTTP/2 would compare it with, and put it among, the values it remembers of the last forty requests.
        value.set_sensitive(true);
        headers.insert(const { HeaderName::from_static("traceparent") }, value);
    }
}

fn write(id: &[u8], to: &mut [u8]) {
    // Fails where `to` has not two bytes for each: the test would see zeros.
    let _ = hex::encode_to_slice(id, to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::propagation::TextMapPropagator as _;
    use opentelemetry_http::HeaderInjector;
    use opentelemetry_sdk::propagation::TraceContextPropagator;

    #[test]
    fn headers_are_those_of_the_sdk() {
        let state = TraceState::from_key_value([("a", "1"), ("b", "2")]).unwrap();
        let sampled = root(0x0123_4567_89ab_cdef_0011_2233_4455_6677, 0x00fe_dcba_9876_5432, true);
        let with_state = SpanContext::new(sampled.trace_id(), sampled.span_id(), flags(false), true, state);
        for context in [root(1, 2, false), sampled, with_state] {
            let (mut ours, mut theirs) = (HeaderMap::new(), HeaderMap::new());
            inject(&context, &mut ours);
            let parent = Context::new().with_remote_span_context(context.clone());
            TraceContextPropagator::new().inject_context(&parent, &mut HeaderInjector(&mut theirs));
            assert_eq!(ours["traceparent"], theirs["traceparent"]);
            // The SDK writes an empty one too.
            assert_eq!(ours.get("tracestate"), theirs.get("tracestate").filter(|state| !state.is_empty()));
            assert_eq!(remote(&ours).trace_id(), context.trace_id());
        }
        let mut none = HeaderMap::new();
        inject(&SpanContext::NONE, &mut none);
        assert!(none.is_empty());
    }
}
