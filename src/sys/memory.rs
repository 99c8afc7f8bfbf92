//! Memory that is given back.

use std::ffi::CStr;

/// Gives memory that was freed back to the system. Some allocators do so by themselves, and there this does nothing.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes no pointers and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives back what a launch took: memory that it freed, and the program's code, which for the most part it needed alone.
/// What is called again comes back from the page cache, a fault for each piece.
pub fn settle() {
    give_back();
    // SAFETY: the callback has the type that dl_iterate_phdr(3) wants and uses no data.
    unsafe { libc::dl_iterate_phdr(Some(forget_code), std::ptr::null_mut()) };
}

/// Forgets the code of one loaded object.
unsafe extern "C" fn forget_code(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: dl_iterate_phdr(3) passes a valid object with a name, whose headers are an array of that length.
    let (base, name, headers) = unsafe {
        let object = &*object;
        (
            object.dlpi_addr,
            CStr::from_ptr(object.dlpi_name),
            std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)),
        )
    };
    // The program itself has no name, and what the kernel provides has no path.
    if !name.is_empty() && !name.to_bytes().starts_with(b"/") {
        return 0;
    }
    let page = rustix::param::page_size() as u64;
    for header in headers {
        // Never what can be written to: it would be lost.
        if header.p_type != libc::PT_LOAD || header.p_flags & (libc::PF_X | libc::PF_W) != libc::PF_X {
            continue;
        }
        let begin = (base + header.p_vaddr) / page * page;
        let length = base + header.p_vaddr + header.p_memsz - begin;
        // SAFETY: these pages are mapped from a file and were never written to, so that they come back as they are. When
        // the kernel refuses, nothing has changed.
        unsafe { libc::madvise(begin as *mut libc::c_void, length as usize, libc::MADV_DONTNEED) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KiB of this program's code that are resident.
    fn resident_code() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let own = std::env::current_exe().unwrap();
        let mut ours = false;
        let mut total = 0;
        for line in maps.lines() {
            if let Some(size) = line.strip_prefix("Rss:").filter(|_| ours) {
                total += size.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
            } else if line.contains("-") && line.contains(" r") {
                ours = line.contains(" r-xp ") && line.ends_with(own.to_str().unwrap());
            }
        }
        total
    }

    #[test]
    fn code_is_given_back_and_still_runs() {
        let before = resident_code();
        settle();
        let after = resident_code();
        assert!(after < before, "{before} KiB, then {after} KiB");
    }
}
