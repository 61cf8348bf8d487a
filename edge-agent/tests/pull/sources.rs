//! Models that are there already: by image, claim, folder of the node, or just a path.

use std::os::unix::fs::PermissionsExt as _;

use terrace_agent::pull::{PullError, local};
use terrace_contract::status::AgentFailure;

use crate::server::sha256;

#[tokio::test]
async fn a_file_is_taken_as_it_is_and_never_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, b"weights").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    for expected in [None, Some(sha256(b"weights"))] {
        let model = local(&path, expected.as_deref()).await.unwrap();
        assert_eq!((model.path(), model.sha256()), (&*path, &*sha256(b"weights")));
    }
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let wrong = local(&path, Some(&sha256(b"other"))).await.unwrap_err();
    assert_eq!(wrong.reason(), AgentFailure::DigestMismatch);
    assert!(wrong.to_string().contains(&sha256(b"weights")) && wrong.to_string().contains("model.gguf"), "{wrong}");
}

#[tokio::test]
async fn a_path_that_is_wrong_says_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("model.gguf"), b"weights").unwrap();
    std::fs::create_dir(at("inner")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
    assert!(fifo.success());
    for (name, word) in [
        ("modle.gguf", "holds model.gguf"),
        ("model.gguf/x", "no such file"),
        ("inner", "holds no .gguf file"),
        ("pipe", "regular"),
        ("", "holds model.gguf"),
    ] {
        let error = local(&at(name), None).await.unwrap_err();
        assert!(matches!(error, PullError::NoFile { .. }), "{name}: {error:?}");
        assert_eq!(error.reason(), AgentFailure::NotFound);
        assert!(error.to_string().contains(word), "{name}: {error}");
    }
}

/// Like `terrace up`, which gives the agent a file of the user's cache by its path.
#[tokio::test]
async fn a_file_that_is_served_by_its_path_is_not_evicted_either() {
    let cache = tempfile::tempdir().unwrap();
    let (used, new) = (vec![1; 1000], vec![2; 1000]);
    let path = cache.path().join(format!("{}.gguf", sha256(&used)));
    std::fs::write(&path, &used).unwrap();
    let model = local(&path, None).await.unwrap();
    let server = crate::server::Server::file(new.clone()).await;
    let mut source = server.source(&new, cache.path());
    source.cache_limit = Some(1500);
    assert_eq!(crate::server::pull(&source).await.unwrap_err().reason(), AgentFailure::NoSpace);
    assert!(path.exists());
    drop(model);
    assert_eq!(crate::server::pull(&source).await.unwrap(), new);
    assert!(!path.exists());
}
