//! What is revoked when the session is over, however it ends.

use crate::host::secret_sources::{Bytes, Command};

/// Secrets with the commands that revoke them. Each is run once: when it is told to, or else when this is dropped.
#[derive(Default)]
pub(in crate::run) struct Revokes(Vec<(String, Command, Bytes)>);

impl Revokes {
    /// From now on the secret `name` has to be revoked.
    pub(super) fn add(&mut self, name: &str, command: Command, value: Bytes) {
        self.0.push((name.to_owned(), command, value));
    }

    /// Runs the commands. Returns what failed, a line each.
    pub(in crate::run) fn run(&mut self) -> Vec<String> {
        let commands = std::mem::take(&mut self.0).into_iter();
        commands.filter_map(|(name, command, value)| command.revoke(&name, &value).err()).collect()
    }
}

impl Drop for Revokes {
    fn drop(&mut self) {
        self.run();
    }
}
