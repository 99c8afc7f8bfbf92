//! `ai-jail` runs an AI coding agent in a jail that the Linux kernel enforces.
//!
//! Data flows one way, through values that are made in one place and never changed afterwards:
//! what was typed and configured ([`config::settings::Settings`]) and what the machine is ([`host`]) become a
//! [`policy`], the policy becomes a [`plan`], [`launch`] carries the plan out, and [`report`] says what happened.

pub mod audit;
pub mod cli;
pub mod config;
pub mod egress;
pub mod error;
pub mod host;
pub mod inner;
pub mod launch;
pub mod plan;
pub mod policy;
pub mod report;
pub mod sanitize;
pub mod sys;
pub mod terminal;
