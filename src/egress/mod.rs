//! The doors to the network, and the one pure decision behind them.
