//! What ends by itself.

use std::process::Command;

use crate::support::{Place, SERVES, example};

#[test]
fn an_agent_or_router_that_dies_is_started_again_at_its_address_and_ctrl_c_ends_all() {
    let place = Place::new(SERVES, SERVES);
    let models = place.path().display().to_string();
    let quickstart = example("quickstart");
    let mut run = place.terrace(&["up", "-f", &quickstart, "--listen", "127.0.0.1:0", "--models", &models]);
    place.until("err", |said| said.contains("ask in another terminal"));
    for name in ["edge-0", "router-assistant"] {
        let first = place.read(&format!("{name}.pid"));
        assert!(Command::new("kill").args(["-KILL", first.trim()]).status().unwrap().success());
        let said = place.until("err", |said| said.contains(&format!("{name} serves again")));
        assert!(said.contains(&format!("{name} ended with signal: 9")), "{said}");
        let runs = place.read(&format!("{name}.runs"));
        let [before, after] = runs.lines().collect::<Vec<_>>()[..] else { panic!("{runs}") };
        assert!(before.contains("--listen 127.0.0.1:0") && after.contains("--listen 127.0.0.1:9"), "{runs}");
    }
    assert_eq!(place.read("private-0.runs").lines().count(), 1);
    run.signal("-INT");
    assert!(run.ended(), "{}", place.read("err"));
    let left = ["edge-0", "private-0", "router-assistant"].map(|name| place.read(&format!("{name}.pid")));
    assert!(left.iter().all(|pid| !std::path::Path::new("/proc").join(pid.trim()).exists()), "{left:?}");
}
