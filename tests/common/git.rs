//! Git repositories for tests, driven by the real git in a hermetic environment.

use std::path::Path;

use super::{DEADLINE, Output, TestEnv, output_of};

/// Git on the host, in one directory of an environment.
#[derive(Debug, Clone, Copy)]
pub struct Git<'env> {
    env: &'env TestEnv,
}

impl<'env> Git<'env> {
    /// Git in `env`'s project.
    pub fn new(env: &'env TestEnv) -> Self {
        Self { env }
    }

    /// Makes the project a repository with one commit of two files, and an identity in the user's git config.
    pub fn init(self) -> Self {
        self.env.file(
            self.env.home().join(".gitconfig"),
            "[user]\n\tname = Test User\n\temail = test@example.com\n[init]\n\tdefaultBranch = main\n",
        );
        self.run(&["init", "-q"]).ok();
        self.env.file("README.md", "read me\n");
        self.env.file("src/lib.txt", "one\ntwo\nthree\n");
        self.run(&["add", "."]).ok();
        self.run(&["commit", "-q", "-m", "first"]).ok();
        self
    }

    /// Runs git outside, in the project.
    pub fn run(self, args: &[&str]) -> Output {
        self.run_in(&self.env.project(), args)
    }

    /// Runs git outside, in `directory`.
    pub fn run_in(self, directory: &Path, args: &[&str]) -> Output {
        output_of(self.env.command("git").args(args).current_dir(directory), DEADLINE)
    }

    /// `git status --porcelain` outside, with ignored files.
    pub fn status(self) -> String {
        self.run(&["status", "--porcelain", "--ignored"]).ok().to_owned()
    }
}
