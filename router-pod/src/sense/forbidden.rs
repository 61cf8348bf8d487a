//! What makes whoever receives a request fetch, store or forward: with it data leaves by a way that no clearance saw, so
//! it needs a clearance for Public. Of what travels, only what is [`known`] to stay with its receiver does without one.

mod known;
mod shape;

use serde_json::Value;
use terrace_wire::pointer::Pointer;

/// Fields of the body itself, which travel only where a tier lists them.
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
    known::REQUEST.iter().find_map(|(name, shape)| shape::fault(request.get(*name)?, shape, &root.key(name)))
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
            (json!({"tools": [{"server_url": "u"}]}), "/tools/0/server_url"),
            (json!({"tools": [{"type": null, "server_url": "u"}]}), "/tools/0/server_url"),
            (json!({"tools": [{"type": 5, "server_url": "u"}]}), "/tools/0/type"),
            (json!({"tools": [{"type": "function", "function": {"name": "f", "url": "u"}}]}), "/tools/0/function/url"),
            (json!({"tools": {"type": "mcp"}}), "/tools"),
            (json!({"functions": [{"name": "f", "server_url": "u"}]}), "/functions/0/server_url"),
            (json!({"tool_choice": {"type": "web_search"}}), "/tool_choice/type"),
            (json!({"tool_choice": "web_search"}), "/tool_choice"),
            (
                json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": [{"type": "mcp"}]}}}),
                "/tool_choice/allowed_tools/tools/0/type",
            ),
            (json!({"function_call": {"name": "f", "url": "u"}}), "/function_call/url"),
            (
                json!({"messages": [{"role": "assistant", "tool_calls": [{"type": "mcp", "server_url": "u"}]}]}),
                "/messages/0/tool_calls/0/type",
            ),
            (
                json!({"prediction": {"type": "content", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}}),
                "/prediction/content/0/image_url",
            ),
            (
                json!({"prediction": {"type": "content", "content": [{"type": "file", "file": {"file_id": "f"}}]}}),
                "/prediction/content/0/file",
            ),
            (json!({"prediction": {"type": "page", "url": "https://x"}}), "/prediction/type"),
            (json!({"response_format": {"type": "grammar", "url": "u"}}), "/response_format/type"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"$ref": "https://x/s"}}}}),
                "/response_format/json_schema/schema/$ref",
            ),
            (json!({"reasoning_effort": {"plan": "u"}}), "/reasoning_effort"),
            (json!({"prompt": [{"type": "url", "url": "u"}]}), "/prompt/0"),
        ];
        for (request, want) in cases {
            assert_eq!(first(&request).map(|p| p.to_string()).as_deref(), Some(want), "{request}");
        }
    }

    #[test]
    fn a_part_that_is_not_known_or_has_its_bytes_elsewhere_is_named() {
        let u = "https://elsewhere.example/x";
        for (part, member) in [
            (json!({"type": "input_file", "file_url": u}), "/type"),
            (json!({"type": "file", "file": {"file_url": u}}), "/file"),
            (json!({"type": "file", "file": {"file_data": u}}), "/file"),
            (json!({"type": "video", "video": u}), "/type"),
            (json!({"type": "input_audio", "input_audio": {"url": u}}), "/input_audio"),
            (json!({"type": "input_audio", "input_audio": {"data": u, "format": "wav"}}), "/input_audio"),
            (json!({"type": "document", "source": {"type": "url", "url": u}}), "/type"),
            (json!({"type": "image", "source": {"type": "url", "url": u}}), "/source"),
            (json!({"type": "image_url", "image_url": {"uri": u}}), "/image_url"),
            (json!({"type": "image_url", "image_url": [{"url": u}]}), "/image_url"),
            (json!({"type": "image_url", "image_url": {"url": " https://x.example"}}), "/image_url"),
            (json!({"type": "image_url", "image_url": "//host/x"}), "/image_url"),
            (json!({"type": "image_url", "image_url": "data:text/html;base64,AAAA"}), "/image_url"),
            (json!({"type": "image_url", "image_url": "data:image/svg+xml;base64,AAAA"}), "/image_url"),
            (json!({"type": "image_url", "image_url": "data:image/png,https://x.example"}), "/image_url"),
            (json!({"type": "hologram", "x": u}), "/type"),
            (json!({"type": "text", "text": "x", "image_url": {"url": u}}), "/image_url"),
            (json!({"type": "text", "text": {"url": u}}), "/text"),
            (json!({"image_url": {"url": u}}), "/image_url"),
            (json!("bare"), ""),
        ] {
            let request = json!({"messages": [{"role": "user", "content": [part]}]});
            let want = format!("/messages/0/content/0{member}");
            assert_eq!(first(&request).map(|p| p.to_string()), Some(want), "{request}");
        }
    }

    #[test]
    fn what_stays_with_the_receiver_is_allowed() {
        let data = "data:image/png;base64,iVBORw0KGgo=";
        let schema = json!({"type": "object", "$defs": {"a": {}}, "properties": {"$ref": {"$ref": "#/$defs/a"}}});
        let function = json!({"name": "f", "description": "d", "parameters": schema, "strict": true});
        for request in [
            json!({"store": false, "previous_response_id": null}),
            json!({"tools": [{"type": "function"}]}),
            json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]}),
            json!({"messages": [{"role": "user", "name": "n", "unknown": {"does not": "travel"}, "content": [
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": data, "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
            ]}]}),
            json!({"messages": [
                {"role": "assistant", "content": null, "refusal": null, "tool_calls": [{"index": 0, "id": "c",
                    "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "function_call": {"name": "f",
                    "arguments": "{}"}},
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]},
            ]}),
            json!({"tools": [{"type": "function", "function": function}, {"type": "custom", "custom": {"name": "c",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}}],
                "functions": [function], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
            json!({"tool_choice": "required", "function_call": "auto", "prompt": ["a", "b"], "input": [[1, 2]]}),
            json!({"prediction": {"type": "content", "content": [{"type": "text", "text": "p"}]}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
        ] {
            assert_eq!(first(&request), None, "{request}");
        }
    }
}
