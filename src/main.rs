//! The `ai-jail` program.

fn main() {}
