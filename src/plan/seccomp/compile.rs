//! From the table to instructions. `seccompiler` compiles the comparisons of arguments, one small program for each distinct check;
//! what leads to them is ours.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::Arch;
use super::table::{Answer, Condition, Refused};

// linux/bpf_common.h and linux/seccomp.h.
const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;

/// The program. `refused` is sorted by number. Fails when seccompiler refuses a check, for example for an argument above the fifth.
pub fn compile(
    arch: Arch,
    newest: u32,
    refused: &[Refused<'_>],
) -> Result<Vec<sock_filter>, seccompiler::BackendError> {
    let mut checks = Vec::new();
    for call in refused.iter().filter(|call| !call.row.pass.is_empty()) {
        checks.push(check(arch, call)?);
    }
    let mut tree = Vec::new();
    plant(&ranges(refused), &mut tree);

    let (audit, _) = facts(arch);
    let mut program = vec![
        statement(LOAD_WORD, OFFSET_ARCH),
        jump(JUMP_EQUAL, audit, 1, 0),
        statement(RETURN, SeccompAction::KillProcess.into()),
        statement(LOAD_WORD, OFFSET_NUMBER),
        jump(JUMP_GREATER, newest, 0, 1),
        statement(RETURN, Answer::Absent.action().into()),
    ];
    let first_check = program.len() + tree.len();
    for node in tree {
        program.push(match node {
            Node::Plain(instruction) => instruction,
            Node::Check(index) => {
                let target = first_check + checks.iter().take(index).map(Vec::len).sum::<usize>();
                // Instructions number in the hundreds; the kernel takes 4096 at most.
                statement(JUMP, (target - program.len() - 1) as u32)
            }
        });
    }
    program.extend(checks.into_iter().flatten());
    Ok(program)
}

/// What becomes of a range of numbers.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Pass,
    Refuse(Answer),
    /// The check with this index decides.
    Check(usize),
}

/// An instruction of the tree; the way to a check is known only when the tree is complete.
enum Node {
    Plain(sock_filter),
    Check(usize),
}

/// The numbers from zero up, as the first number of each range and what becomes of it.
fn ranges(refused: &[Refused<'_>]) -> Vec<(u32, Outcome)> {
    let mut by_start = BTreeMap::from([(0, Outcome::Pass)]);
    let mut checks = 0;
    for call in refused {
        let outcome = if call.row.pass.is_empty() {
            Outcome::Refuse(call.row.answer)
        } else {
            checks += 1;
            Outcome::Check(checks - 1)
        };
        by_start.insert(call.number, outcome);
        // The next call overwrites this when it has the next number.
        by_start.insert(call.number + 1, Outcome::Pass);
    }
    let mut ranges: Vec<(u32, Outcome)> = by_start.into_iter().collect();
    ranges.dedup_by(|next, previous| match (next.1, previous.1) {
        (Outcome::Pass, Outcome::Pass) => true,
        (Outcome::Refuse(one), Outcome::Refuse(other)) => one == other,
        _ => false,
    });
    ranges
}

/// Appends a binary search over `ranges`, which are not empty.
fn plant(ranges: &[(u32, Outcome)], tree: &mut Vec<Node>) {
    if let [(_, outcome)] = ranges {
        tree.push(match outcome {
            Outcome::Pass => Node::Plain(statement(RETURN, SeccompAction::Allow.into())),
            Outcome::Refuse(answer) => Node::Plain(statement(RETURN, answer.action().into())),
            Outcome::Check(index) => Node::Check(*index),
        });
        return;
    }
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let mut left = Vec::new();
    plant(below, &mut left);
    let middle = above.first().map_or(0, |(start, _)| *start);
    match u8::try_from(left.len()) {
        Ok(distance) => tree.push(Node::Plain(jump(JUMP_GREATER_EQUAL, middle, distance, 0))),
        // A conditional jump reaches 255 instructions.
        Err(_) => {
            tree.push(Node::Plain(jump(JUMP_GREATER_EQUAL, middle, 0, 1)));
            tree.push(Node::Plain(statement(JUMP, left.len() as u32)));
        }
    }
    tree.append(&mut left);
    plant(above, tree);
}

/// A program of its own that decides about one call by its arguments.
fn check(arch: Arch, call: &Refused<'_>) -> Result<BpfProgram, seccompiler::BackendError> {
    let (_, target) = facts(arch);
    let mut rules = Vec::new();
    for alternative in &call.row.pass {
        let conditions = alternative.iter().map(|condition| condition.compiled());
        rules.push(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?);
    }
    SeccompFilter::new(
        BTreeMap::from([(i64::from(call.number), rules)]),
        call.row.answer.action(),
        SeccompAction::Allow,
        target,
    )?
    .try_into()
}

impl Condition {
    fn compiled(self) -> Result<SeccompCondition, seccompiler::BackendError> {
        let (arg, operator, value) = match self {
            Self::Masked { arg, mask, eq } => (arg, SeccompCmpOp::MaskedEq(mask.into()), eq),
            Self::Equal { arg, eq } => (arg, SeccompCmpOp::Eq, eq),
            Self::Differs { arg, ne } => (arg, SeccompCmpOp::Ne, ne),
        };
        SeccompCondition::new(arg, SeccompCmpArgLen::Dword, operator, value.into())
    }
}

impl Answer {
    fn action(self) -> SeccompAction {
        SeccompAction::Errno(match self {
            Self::Forbidden => libc::EPERM as u32,
            Self::Absent => libc::ENOSYS as u32,
        })
    }
}

/// The AUDIT_ARCH value of linux/audit.h, and seccompiler's name.
fn facts(arch: Arch) -> (u32, TargetArch) {
    match arch {
        Arch::X86_64 => (0xc000_003e, TargetArch::x86_64),
        Arch::Aarch64 => (0xc000_00b7, TargetArch::aarch64),
    }
}

fn statement(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
