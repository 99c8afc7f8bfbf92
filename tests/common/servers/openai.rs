//! As much of OpenAI's Responses API as codex needs to answer one prompt.

use serde_json::json;

use super::{GREETING, Recorded, Reply, TestCa, TlsServer};

/// A server for `api.openai.com`. Every prompt is answered with [`GREETING`].
pub fn openai(ca: &TestCa) -> TlsServer {
    TlsServer::start(ca, "api.openai.com", answer)
}

fn answer(request: &Recorded) -> Reply {
    let path = request.path.split('?').next().unwrap_or("");
    match (request.method.as_str(), path) {
        // The WebSocket that codex tries first: this answer makes it fall back to POST.
        ("GET", "/v1/responses") => {
            Reply { status: 426, content_type: "text/plain", body: "upgrade is not supported".into() }
        }
        ("GET", "/v1/models") => Reply::json(&json!({"object": "list", "data": [], "models": []})),
        ("POST", "/v1/responses") => Reply::events(&response_events()),
        _ => Reply::json(&json!({})),
    }
}

fn response_events() -> Vec<serde_json::Value> {
    let item = json!({
        "type": "message", "id": "msg_test", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": GREETING, "annotations": []}],
    });
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    });
    vec![
        json!({"type": "response.created", "response": {"id": "resp_test", "status": "in_progress"}}),
        json!({
            "type": "response.output_item.added", "output_index": 0,
            "item": {"type": "message", "id": "msg_test", "role": "assistant", "status": "in_progress", "content": []},
        }),
        json!({
            "type": "response.output_text.delta", "item_id": "msg_test", "output_index": 0, "content_index": 0,
            "delta": GREETING,
        }),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({
            "type": "response.completed",
            "response": {"id": "resp_test", "status": "completed", "output": [item], "usage": usage},
        }),
    ]
}
