//! Every error of ours: a kind, a sentence, hints. Exit codes are decided here and nowhere else.

use std::fmt;

use crate::sanitize::escape;

/// What went wrong, as far as the exit status is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line cannot be understood.
    Usage,
    /// A configuration file cannot be understood, or may not say what it says.
    Config,
    /// Something that was asked for is refused, because it would weaken the jail or be meaningless.
    Refused,
    /// This machine cannot enforce a protection that was asked for.
    Machine,
    /// A system call or a child process of ours failed while the jail was being set up.
    Setup,
    /// The command exists but cannot be executed.
    NotExecutable,
    /// The command does not exist in the jail.
    NotFound,
}

impl Kind {
    /// The exit status: 125 for a jail that could not be set up, 126 and 127 as a shell has them.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::Config | Self::Refused | Self::Machine | Self::Setup => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

/// One error: what happened; why; what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    what: String,
    why: Option<String>,
    hints: Vec<String>,
    citation: Option<String>,
}

/// The result of everything that can fail with an error for the user.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `what` happened, for example "cannot read /etc/x".
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), why: None, hints: Vec::new(), citation: None }
    }

    /// Adds the reason, for example the text of an errno.
    #[must_use]
    pub fn because(mut self, why: impl fmt::Display) -> Self {
        self.why = Some(why.to_string());
        self
    }

    /// Adds a way out: one imperative sentence, possibly with a command.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the lines of a file that the error is about, underlined: they are shown below the sentence.
    #[must_use]
    pub fn citing(mut self, lines: impl Into<String>) -> Self {
        self.citation = Some(lines.into());
        self
    }

    /// The same error as one of another kind: what is missing may be no fault of the command that was asked for.
    #[must_use]
    pub fn of_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The kind, for the exit status and for tests.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What happened, alone.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The ways out, one sentence each.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Error {
    /// "what; why; what to do" on one line, without the `ai-jail:` prefix, which `report` adds; a citation follows on
    /// lines of its own. What came from outside is escaped, so that it cannot begin a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", escape(&self.what))?;
        if let Some(why) = &self.why {
            write!(f, "; {}", escape(why))?;
        }
        for hint in &self.hints {
            write!(f, "; {}", escape(hint))?;
        }
        if let Some(citation) = &self.citation {
            write!(f, "\n{citation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
