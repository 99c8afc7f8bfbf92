//! The doors to the network, and the one pure decision behind them.

pub mod ask;
pub mod chunk;
pub mod decide;
pub mod dns_message;
pub mod head;
pub mod limits;
pub mod names;
pub mod reach;
pub mod rewrite;
