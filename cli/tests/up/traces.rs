//! Where spans go.

use crate::support::{Place, SERVES, example};

#[test]
fn the_collector_given_with_otlp_is_handed_to_router_and_agents() {
    let place = Place::new(SERVES, SERVES);
    let models = place.path().display().to_string();
    let quickstart = example("quickstart");
    let common = ["up", "-f", &quickstart, "--listen", "127.0.0.1:0", "--models", &models];
    let run = place.terrace(&[&common[..], &["--otlp", "http://127.0.0.1:4318"]].concat());
    for name in ["edge-0", "private-0", "router-assistant"] {
        let text = place.until(&format!("{name}.env"), |text| text.contains("POD_NAME"));
        assert!(text.contains("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318\n"), "{name}: {text}");
        assert!(!text.contains("TERRACE_TRACE_FILE"), "{name}: {text}");
    }
    drop(run);
    let mut refused = place.terrace(&[&common[..], &["--otlp", "nonsense"]].concat());
    assert!(!refused.ended());
    assert!(place.read("err").contains("such as http://127.0.0.1:4318"), "{}", place.read("err"));
}
