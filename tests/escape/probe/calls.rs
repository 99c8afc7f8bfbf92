//! Raw system calls that a jail must refuse, each with arguments that the kernel itself rejects harmlessly.

use serde_json::{Map, Value, json};

use super::outcome;
use super::table::{Call, TABLE};

/// Makes every call of the table and reports each by its name: `calls.NAME.errno`.
pub fn all() -> Value {
    let calls: Map<String, Value> = TABLE.iter().map(|call| (call.name.to_owned(), call.report())).collect();
    json!({"ok": true, "errno": 0, "calls": calls})
}

impl Call {
    fn report(&self) -> Value {
        let [a, b, c, d, e, f] = self.args;
        // SAFETY: by the table, every call is refused by the kernel for its arguments (a bad pointer, a bad
        // descriptor or an unknown flag), or changes only this process.
        let returned = unsafe { libc::syscall(self.number, a, b, c, d, e, f) };
        let mut report = outcome(returned);
        report["needs_root"] = json!(self.needs_root);
        report
    }
}

/// `getpid` by the 32-bit entry point of the x86_64 kernel. A filter of 64-bit calls does not see it.
#[cfg(target_arch = "x86_64")]
pub fn int80() -> Value {
    let pid: u64;
    // SAFETY: number 20 of the 32-bit table is getpid; it takes nothing and writes only rax. r8 to r11 are
    // cleared by the entry code of some kernels.
    unsafe {
        std::arch::asm!(
            "int 0x80", inout("rax") 20_u64 => pid, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    json!({"ok": pid == u64::from(std::process::id()), "errno": 0, "returned": pid})
}

/// Other architectures have no such entry.
#[cfg(not(target_arch = "x86_64"))]
pub fn int80() -> Value {
    json!({"ok": false, "errno": libc::ENOSYS})
}

/// `getpid` with the x32 bit set.
pub fn x32() -> Value {
    const X32_BIT: libc::c_long = 0x4000_0000;
    // SAFETY: getpid takes nothing and writes nothing.
    outcome(unsafe { libc::syscall(X32_BIT | libc::SYS_getpid) })
}
