//! Words of the API's own: names of fields, and values that say nothing.

/// Values of the API's own that say nothing: roles, kinds, choices.
pub fn is_wire_word(s: &str) -> bool {
    matches!(
        s,
        "user"
            | "assistant"
            | "system"
            | "developer"
            | "tool"
            | "function"
            | "text"
            | "refusal"
            | "auto"
            | "none"
            | "required"
            | "object"
            | "string"
            | "integer"
            | "number"
            | "boolean"
            | "array"
            | "null"
            | "json_object"
            | "json_schema"
            | "low"
            | "medium"
            | "high"
            | "minimal"
            | "float"
            | "base64"
            | "default"
            | "content"
            | "stop"
            | "length"
            | "tool_calls"
            | "input_text"
            | "output_text"
            | ""
    )
}

/// The API's own name of a field, if the key is one. Sorted.
pub fn field(key: &str) -> Option<&'static str> {
    FIELDS.binary_search(&key).ok().map(|at| FIELDS[at])
}

const FIELDS: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "arguments",
    "audio",
    "best_of",
    "content",
    "default",
    "description",
    "dimensions",
    "echo",
    "encoding_format",
    "enum",
    "frequency_penalty",
    "function",
    "function_call",
    "functions",
    "id",
    "image_url",
    "include_usage",
    "input",
    "items",
    "json_schema",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "modalities",
    "model",
    "n",
    "name",
    "parallel_tool_calls",
    "parameters",
    "prediction",
    "presence_penalty",
    "prompt",
    "properties",
    "reasoning_content",
    "reasoning_effort",
    "refusal",
    "repetition_penalty",
    "required",
    "response_format",
    "role",
    "schema",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "strict",
    "suffix",
    "temperature",
    "text",
    "tool_call_id",
    "tool_calls",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "type",
    "user",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_sorted() {
        assert!(FIELDS.is_sorted());
    }
}
