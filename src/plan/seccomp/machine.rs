//! A machine for tests that runs a seccomp program as the kernel does, for the instructions that the kernel accepts here.

/// What a program sees of a system call (`struct seccomp_data`).
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The number.
    pub number: u32,
    /// The AUDIT_ARCH value of the entry it came through.
    pub arch: u32,
    /// The arguments.
    pub args: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.arch,
            16..64 => {
                let arg = self.args[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
            }
            _ => panic!("a load from {offset}"),
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The returned value.
    pub action: u32,
    /// How many instructions it took.
    pub steps: usize,
    /// Whether an argument was loaded. When none is, the kernel decides by a bitmap and never runs the program again.
    pub looked_at_arguments: bool,
}

/// Runs `program` for `call`. Panics on a jump out, on an instruction that the kernel would refuse, and at the end of the program.
pub fn run(program: &[u8], call: Call) -> Ran {
    let (mut at, mut accumulator, mut steps, mut looked_at_arguments) = (0, 0_u32, 0, false);
    loop {
        let [c0, c1, jt, jf, k0, k1, k2, k3] = program[at * 8..at * 8 + 8] else { unreachable!() };
        let (code, k) = (u16::from_ne_bytes([c0, c1]), u32::from_ne_bytes([k0, k1, k2, k3]));
        let branch = |taken: bool| usize::from(if taken { jt } else { jf });
        at += 1;
        steps += 1;
        match code {
            0x06 => return Ran { action: k, steps, looked_at_arguments },
            0x20 => {
                accumulator = call.word(k);
                looked_at_arguments |= k >= 16;
            }
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += branch(accumulator == k),
            0x25 => at += branch(accumulator > k),
            0x35 => at += branch(accumulator >= k),
            _ => panic!("an instruction {code:#x}"),
        }
    }
}
