//! Loopback servers that stand for the model providers, with certificates of a CA made for the test.

mod anthropic;
mod openai;
mod proxy;
mod tls;
mod web;

use std::sync::{Arc, Mutex};

pub use anthropic::anthropic;
pub use openai::openai;
pub use proxy::ConnectProxy;
pub use tls::{TestCa, TlsServer};
pub use web::{PLAIN, REFUSED, SECURE, WebServer};

/// The words that both servers answer with, whatever they are asked.
pub const GREETING: &str = "hello from the test server";

/// One request as a server saw it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header names (lower case) and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Recorded {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What a server answers.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Reply {
    /// A JSON body with status 200.
    pub fn json(value: &serde_json::Value) -> Self {
        Self { status: 200, content_type: "application/json", body: value.to_string() }
    }

    /// Server-sent events, each under the name that its `type` field has.
    pub fn events(events: &[serde_json::Value]) -> Self {
        let body = events.iter().map(|event| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"))
        });
        Self { status: 200, content_type: "text/event-stream", body: body.collect() }
    }
}

/// The requests that a server has seen so far.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Recorded>>>);

impl Journal {
    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Recorded> {
        self.0.lock().expect("lock").clone()
    }

    /// Those whose path begins with `prefix`.
    pub fn with_path(&self, prefix: &str) -> Vec<Recorded> {
        self.all().into_iter().filter(|request| request.path.starts_with(prefix)).collect()
    }

    fn add(&self, request: Recorded) {
        self.0.lock().expect("lock").push(request);
    }
}
