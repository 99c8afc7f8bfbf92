//! What a plan leaves to the launch: the session's authority, and copies and variables with fakes of secrets.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::error::{Error, Kind, Result};

use super::Plan;
use super::operation::{AtLaunch, BwrapOp, Content, DoorOp};

/// What the launch has made. No value of a secret is in it.
#[derive(Debug, Clone, Default)]
pub struct Late {
    /// Files.
    pub contents: BTreeMap<AtLaunch, Vec<u8>>,
    /// What bubblewrap does beside the plan, last.
    pub operations: Vec<BwrapOp>,
    /// What is done at the held door beside the plan, first.
    pub door: Vec<DoorOp>,
    /// Variables of the jail; they win over the plan's.
    pub environment: BTreeMap<String, OsString>,
    /// Arguments of the command by their position, the program's name being the first; they win over the plan's.
    pub arguments: BTreeMap<usize, Vec<u8>>,
}

impl Late {
    /// Nothing in every file: for a jail that is built to see whether it can be.
    pub fn empty(plan: &Plan) -> Self {
        let contents = plan.operations.iter().filter_map(wanted).map(|wanted| (wanted, Vec::new()));
        Self { contents: contents.collect(), ..Self::default() }
    }
}

impl Plan {
    /// The plan with what the launch made.
    ///
    /// # Errors
    /// When something that it wants was not made.
    pub fn completed(&self, late: &Late) -> Result<Self> {
        let mut plan = self.clone();
        for operation in &mut plan.operations {
            if let BwrapOp::File { content, .. } | BwrapOp::Cover { content, .. } = operation
                && let Content::AtLaunch(wanted) = content
            {
                let Some(made) = late.contents.get(wanted) else {
                    return Err(Error::new(Kind::Setup, "the jail could not be set up")
                        .because(format!("{wanted:?} was not made for it")));
                };
                *content = Content::Bytes(made.clone());
            }
        }
        plan.operations.extend(late.operations.iter().cloned());
        // Before anything is covered or pinned.
        plan.door.splice(0..0, late.door.iter().cloned());
        plan.environment.retain(|(name, _)| !late.environment.contains_key(name));
        plan.environment.extend(late.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
        for (position, argument) in plan.inner.argv.iter_mut().enumerate() {
            if let Some(made) = late.arguments.get(&position) {
                argument.clone_from(made);
            }
        }
        Ok(plan)
    }
}

fn wanted(operation: &BwrapOp) -> Option<AtLaunch> {
    match operation {
        BwrapOp::File { content: Content::AtLaunch(wanted), .. }
        | BwrapOp::Cover { content: Content::AtLaunch(wanted), .. } => Some(*wanted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NetworkPlan;
    use crate::plan::inner::{InnerLandlock, InnerSpec, InnerTerminal};
    use crate::plan::operation::Access;
    use crate::policy::ProcView;

    fn plan() -> Plan {
        Plan {
            bwrap: "/usr/bin/bwrap".into(),
            network: NetworkPlan::Off,
            operations: vec![BwrapOp::Dir("/a".into())],
            door: Vec::new(),
            staging: "/run/s".into(),
            stage: "/run/x".into(),
            inner: InnerSpec {
                program: Vec::new(),
                argv: vec![b"echo".to_vec(), b"old".to_vec()],
                cwd: Vec::new(),
                terminal: InnerTerminal::None,
                rlimits: Vec::new(),
                landlock: InnerLandlock::Unavailable,
                umask: 0,
                ignored: Vec::new(),
            },
            seccomp: Vec::new(),
            environment: Vec::new(),
            store: Vec::new(),
            wanted: Vec::new(),
            carry: None,
            proc_view: ProcView::Own,
            cgroup: None,
            time: None,
        }
    }

    #[test]
    fn a_plan_is_complete_only_with_everything_that_it_wants() {
        let mut plan = plan();
        assert!(plan.completed(&Late::default()).is_ok(), "control");
        let file = |content| BwrapOp::File { content, dest: "/x".into(), access: Access::ReadOnly };
        plan.operations.push(file(Content::AtLaunch(AtLaunch::Masked(3))));
        let link = DoorOp::Link { shown: "/s".into(), dest: "/d".into() };
        let store = DoorOp::Store { path: "/c".into() };
        plan.door = vec![store.clone(), DoorOp::SealRoot, store.clone()];
        plan.environment = vec![("KEY".to_owned(), "old".into()), ("A".to_owned(), "a".into())];
        let other = Late { contents: BTreeMap::from([(AtLaunch::Masked(2), vec![1])]), ..Late::default() };
        assert!(plan.completed(&other).is_err());
        assert!(plan.completed(&Late::empty(&plan)).is_ok());
        let late = Late {
            contents: BTreeMap::from([(AtLaunch::Masked(3), vec![7])]),
            operations: vec![BwrapOp::Dir("/last".into())],
            door: vec![link.clone()],
            environment: BTreeMap::from([("KEY".to_owned(), "new".into())]),
            arguments: BTreeMap::from([(1, b"new".to_vec()), (2, b"none".to_vec())]),
        };
        let completed = plan.completed(&late).unwrap();
        assert_eq!(completed.inner.argv, [b"echo".to_vec(), b"new".to_vec()]);
        let last = &completed.operations[completed.operations.len() - 2..];
        assert_eq!(last, [file(Content::Bytes(vec![7])), BwrapOp::Dir("/last".into())]);
        assert_eq!(
            completed.door,
            [link, store.clone(), DoorOp::SealRoot, store],
            "while the root is writable and nothing is covered"
        );
        assert_eq!(
            completed.environment,
            [("A".to_owned(), "a".into()), ("KEY".to_owned(), OsString::from("new"))]
        );
    }
}
