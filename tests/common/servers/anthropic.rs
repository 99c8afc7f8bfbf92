//! As much of Anthropic's Messages API as Claude Code needs to answer one prompt.

use serde_json::json;

use super::{GREETING, Recorded, Reply, TestCa, TlsServer};

/// A server for `api.anthropic.com`. Every message is answered with [`GREETING`].
pub fn anthropic(ca: &TestCa) -> TlsServer {
    TlsServer::start(ca, "api.anthropic.com", answer)
}

fn answer(request: &Recorded) -> Reply {
    let path = request.path.split('?').next().unwrap_or("");
    if request.method != "POST" || path != "/v1/messages" {
        return Reply::json(&json!({}));
    }
    let asked: serde_json::Value = serde_json::from_str(&request.body).unwrap_or_default();
    let model = asked["model"].as_str().unwrap_or("test-model");
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = |content: serde_json::Value, stop: Option<&str>| {
        json!({
            "id": "msg_test", "type": "message", "role": "assistant", "model": model, "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": usage,
        })
    };
    if asked["stream"] != json!(true) {
        return Reply::json(&message(json!([{"type": "text", "text": GREETING}]), Some("end_turn")));
    }
    Reply::events(&[
        json!({"type": "message_start", "message": message(json!([]), None)}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": GREETING}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({
            "type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 1},
        }),
        json!({"type": "message_stop"}),
    ])
}
