//! A model that is nowhere.

use crate::support::{Place, SERVES, example};

/// Says twice that its source is away, and is never ready.
const AWAY: &str = r#"for i in 1 2; do
echo '{"level":"WARN","message":"the model could not be downloaded","error":"http://m cannot be reached: no name"}' >&2
done; exec sleep 120"#;

#[test]
fn a_model_that_cannot_be_had_is_said_at_once_with_the_next_step() {
    let place = Place::new(AWAY, SERVES);
    let models = place.path().join("no-models").display().to_string();
    let quickstart = example("quickstart");
    let arguments = ["up", "-f", &quickstart, "--listen", "127.0.0.1:0", "--models", &models, "--ask", "hi"];
    let mut run = place.terrace(&[&arguments[..], &["--ready-timeout", "4"]].concat());
    let said = place.until("err", |said| said.matches("cannot be reached: no name").count() >= 2);
    assert!(!said.contains("not ready after"), "{said}");
    for expected in ["edge-0: ", "private-0: ", "`make model`", "--models"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!run.ended());
    let said = place.read("err");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains("is not ready after 4 s: the model could not be downloaded: http://m cannot be"), "{said}");
    assert!(last.contains("`make model`"), "{said}");
    // Each agent said it once, and the end once more, however often it was tried.
    assert_eq!(said.matches("cannot be reached: no name").count(), 3, "{said}");
}
