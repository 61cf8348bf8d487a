//! The OpenAI wire: requests, responses, server-sent events and error bodies, for router and agent alike.
