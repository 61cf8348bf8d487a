//! The terminal goes.

use crate::support::{Place, SERVES, example};

#[test]
fn a_hangup_ends_all_and_leaves_no_secret_behind() {
    let place = Place::new(SERVES, SERVES);
    let models = place.path().display().to_string();
    let quickstart = example("quickstart");
    let mut run = place.terrace(&["up", "-f", &quickstart, "--listen", "127.0.0.1:0", "--models", &models]);
    place.until("err", |said| said.contains("ask in another terminal"));
    let left = || std::fs::read_dir(place.path().join("tmp")).unwrap().count();
    assert_eq!(left(), 1);
    run.signal("-HUP");
    assert!(run.ended(), "{}", place.read("err"));
    assert_eq!(left(), 0);
}
