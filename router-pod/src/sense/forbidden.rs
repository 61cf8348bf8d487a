//! Fields that make whoever receives them fetch, store or forward: with them data leaves by a way that no clearance
//! saw, so they need a clearance for Public.

use serde_json::Value;
use terrace_wire::json::member;
use terrace_wire::pointer::Pointer;

/// Fields of the body itself.
const FIELDS: [&str; 12] = [
    "api_base",
    "base_url",
    "user_config",
    "fallbacks",
    "web_search_options",
    "plugins",
    "mcp",
    "mcp_servers",
    "previous_response_id",
    "conversation",
    "file_ids",
    "background",
];

/// The first field, by its place, that makes the receiver fetch, store or forward.
pub fn first(request: &Value) -> Option<Pointer> {
    let root = Pointer::root();
    let set = |value: Option<&Value>| value.is_some_and(|v| !v.is_null() && v != &Value::Bool(false));
    if let Some(name) = FIELDS.iter().chain(&["store"]).find(|name| set(request.get(**name))) {
        return Some(root.key(name));
    }
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    for (i, tool) in list(request, "tools").iter().enumerate() {
        // Hosted tools run at the receiver and reach out from there; functions run at the caller.
        if tool.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "function" && kind != "custom") {
            return Some(root.key("tools").index(i).key("type"));
        }
    }
    for (i, message) in list(request, "messages").iter().enumerate() {
        let at = root.key("messages").index(i).key("content");
        for (j, part) in list(message, "content").iter().enumerate() {
            if let Some(place) = in_part(part, &at.index(j)) {
                return Some(place);
            }
        }
    }
    None
}

fn in_part(part: &Value, at: &Pointer) -> Option<Pointer> {
    for name in ["file_id", "file"] {
        if member(part, name).is_some_and(|f| f.is_string() || f.get("file_id").is_some()) {
            return Some(at.key(name));
        }
    }
    for name in ["image_url", "image", "video_url", "audio_url", "input_image"] {
        let url = member(part, name).and_then(|v| v.as_str().or_else(|| v.get("url").and_then(Value::as_str)));
        // A data URL carries its bytes; anything else has to be fetched.
        if url.is_some_and(|url| !url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))) {
            return Some(at.key(name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_way_out_is_named_by_its_place() {
        let part = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
        let cases = [
            (json!({"api_base": "http://elsewhere"}), "/api_base"),
            (json!({"user_config": {}}), "/user_config"),
            (json!({"fallbacks": ["x"]}), "/fallbacks"),
            (json!({"web_search_options": {}}), "/web_search_options"),
            (json!({"mcp_servers": []}), "/mcp_servers"),
            (json!({"store": true}), "/store"),
            (json!({"previous_response_id": "r"}), "/previous_response_id"),
            (json!({"tools": [{"type": "function"}, {"type": "mcp"}]}), "/tools/1/type"),
            (json!({"tools": [{"type": "web_search"}]}), "/tools/0/type"),
            (part(json!({"type": "file", "file": {"file_id": "f"}})), "/messages/0/content/0/file"),
            (
                part(json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}})),
                "/messages/0/content/0/image_url",
            ),
            (part(json!({"type": "image_url", "image_url": "HTTPS://x/y.png"})), "/messages/0/content/0/image_url"),
        ];
        for (request, want) in cases {
            assert_eq!(first(&request).map(|p| p.to_string()).as_deref(), Some(want), "{request}");
        }
    }

    #[test]
    fn what_stays_with_the_receiver_is_allowed() {
        for request in [
            json!({"store": false, "previous_response_id": null}),
            json!({"tools": [{"type": "function"}]}),
            json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]}),
        ] {
            assert_eq!(first(&request), None, "{request}");
        }
    }
}
