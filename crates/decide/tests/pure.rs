//! The core depends on nothing that has a clock, randomness, I/O or a runtime. `clippy.toml` watches its own calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]
#![expect(clippy::disallowed_types, reason = "this test asks Cargo; the core asks nobody")]

use std::process::Command;

/// What may be linked into the core; a newcomer is looked at before it is added.
const ALLOWED: &[&str] = &[
    "aho-corasick",
    "block-buffer",
    "cfg-if",
    "const-oid",
    "cpufeatures",
    "crypto-common",
    "digest",
    "equivalent",
    "foldhash",
    "hashbrown",
    "hex",
    "hybrid-array",
    "indexmap",
    "itoa",
    "libc",
    "memchr",
    "proc-macro2",
    "quote",
    "serde",
    "serde_core",
    "serde_derive",
    "serde_json",
    "sha2",
    "syn",
    "terrace-contract",
    "terrace-decide",
    "thiserror",
    "thiserror-impl",
    "typenum",
    "unicode-ident",
    "zmij",
];

#[test]
fn it_depends_only_on_what_is_allowed() {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "terrace-decide", "-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"terrace-decide") && names.contains(&"serde"), "{names:?}");
    let strangers: Vec<&&str> = names.iter().filter(|name| !ALLOWED.contains(name)).collect();
    assert!(strangers.is_empty(), "{strangers:?}: the core is pure; see ALLOWED");
}
