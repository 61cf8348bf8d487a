//! What tiers and policies become, as golden files: read the difference as a reviewer would.
//! `UPDATE_GOLDEN=1 cargo test --release -p terrace-operator --test build` rewrites them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use serde_json::json;
use support::{compare, files, owner, policy_children, site, tier_children};
use terrace_operator::tier;

fn edge() -> serde_json::Value {
    json!({
        "boundary": "Device",
        "region": "eu-west",
        "backend": {"fleet": {
            "workload": "DaemonSet",
            "model": {
                "name": "smollm2-135m-instruct",
                "source": {"http": {
                    "url": "https://models.example.com/smollm2-135m-instruct.q4_1.gguf",
                    "secretRef": {"name": "models", "key": "token"},
                    "pull": {"bytesPerSecond": "20Mi"},
                }},
                "sha256": "b".repeat(64),
            },
            "engine": {"contextTokens": 2048, "maxSequences": 4, "kvCache": "256Mi"},
            "placement": {
                "nodeSelector": {"terrace.dev/edge": "true"},
                "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}],
                "resources": {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
            },
            "rollout": {"maxUnavailable": 2},
            "cache": {"emptyDir": {"sizeLimit": "4Gi"}, "diskReserve": "15%"},
        }},
    })
}

#[test]
fn a_device_tier_is_a_daemon_set_with_its_model_downloaded() {
    compare("tier-daemonset", &tier_children("edge", &edge()));
}

#[test]
fn a_private_tier_is_a_deployment_with_a_gpu_and_its_model_in_an_image() {
    let spec = json!({
        "boundary": "Private",
        "allowedPolicies": {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}},
        "backend": {"fleet": {
            "workload": "Deployment",
            "replicas": 3,
            "model": {"name": "qwen", "source": {"image": {
                "reference": format!("registry.example.com/models/qwen@sha256:{}", "c".repeat(64)),
                "pullSecrets": [{"name": "registry"}],
                "path": "/model.gguf",
            }}},
            "gpu": {"resource": "nvidia.com/gpu", "runtimeClassName": "nvidia"},
        }},
    });
    compare("tier-deployment", &tier_children("private", &spec));
}

#[test]
fn a_claim_template_gives_each_agent_a_claim_of_its_own() {
    let mut spec = edge();
    spec["backend"]["fleet"]["gpu"] = json!({"resourceClaimTemplateName": "one-gpu"});
    let children = tier_children("edge", &spec);
    let pod = &children.iter().find(|c| c["kind"] == "DaemonSet").unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["resourceClaims"], json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]));
    assert_eq!(pod["containers"][0]["resources"]["claims"], json!([{"name": "gpu"}]));
}

#[test]
fn an_endpoint_has_no_children() {
    let spec = json!({
        "boundary": "Public",
        "backend": {"endpoint": {
            "url": "https://api.example.com/v1", "model": "big",
            "credentials": {"secretRef": {"name": "cloud", "key": "apiKey"}},
        }},
    });
    assert_eq!(tier_children("cloud", &spec), Vec::<serde_json::Value>::new());
}

#[test]
fn a_policy_is_a_deployment_of_routers_with_all_that_it_needs() {
    let spec = json!({
        "tiers": [{"name": "edge"}, {"name": "cloud"}],
        "access": {"apiKeys": {"secretRef": {"name": "assistant-keys"}}},
        "sensitivity": {"unlabelled": "Internal"},
        "router": {"replicas": 2, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
    });
    compare("policy-deployment", &policy_children("assistant", &spec));
}

#[test]
fn a_policy_of_sites_is_a_daemon_set_that_serves_its_own_node() {
    let spec = json!({
        "tiers": [{"name": "edge"}],
        "access": {"anonymous": {}},
        "clients": {"namespaces": {"from": "All"}},
        "listener": {"tls": {"secretRef": {"name": "site-tls"}}},
        "sensitivity": {"unlabelled": "Restricted"},
        "router": {"workload": "DaemonSet", "trafficPolicy": "Local"},
    });
    let children = policy_children("site", &spec);
    // Clients that speak TLS come by 443, to the port where the router speaks it.
    let service = &children.iter().find(|c| c["kind"] == "Service").unwrap()["spec"]["ports"][0];
    assert_eq!((&service["port"], &service["targetPort"]), (&json!(443), &json!("clients")));
    let pod = &children.iter().find(|c| c["kind"] == "DaemonSet").unwrap()["spec"]["template"]["spec"];
    let router = &pod["containers"][0];
    assert_eq!(router["ports"][0], json!({"name": "clients", "containerPort": 8443, "protocol": "TCP"}));
    let flags = router["args"].as_array().unwrap();
    for flag in ["--listen=0.0.0.0:8443", "--tls-dir=/etc/terrace/tls"] {
        assert!(flags.contains(&json!(flag)), "{flag}: {flags:?}");
    }
    compare("policy-daemonset", &children);
}

#[test]
fn a_host_path_is_built_only_under_what_the_operator_allows() {
    let spec = |path: &str| {
        let mut spec = edge();
        spec["backend"]["fleet"]["model"] = json!({"name": "m", "source": {"hostPath": {"path": path}}});
        support::tier("edge", &spec)
    };
    assert!(tier::validate(owner("Tier", "edge"), &spec("/models/a.gguf"), &site()).is_ok());
    for path in ["/etc/shadow", "/models", "/modelsx/a.gguf"] {
        let invalid = tier::validate(owner("Tier", "edge"), &spec(path), &site()).unwrap_err();
        assert_eq!(invalid.reason, "HostPathNotAllowed", "{path}");
        assert!(invalid.message.contains("--allowed-host-paths"), "{invalid}");
    }
    assert_eq!(files().len(), 3);
}
