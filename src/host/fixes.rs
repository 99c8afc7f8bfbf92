//! The commands that fix what `doctor` finds, by distribution.

use super::distribution::Distribution;
use super::doctor::Fix;

const fn fix(distribution: Distribution, command: &'static str) -> Fix {
    Fix { distribution, command }
}

const WSL_INSTALL: &str =
    "the command of the distribution that runs inside, for example `sudo apt install bubblewrap`";

pub(super) static INSTALL: &[Fix] = &[
    fix(Distribution::Debian, "sudo apt install bubblewrap"),
    fix(Distribution::Ubuntu, "sudo apt install bubblewrap"),
    fix(Distribution::Fedora, "sudo dnf install bubblewrap"),
    fix(Distribution::Arch, "sudo pacman -S bubblewrap"),
    fix(Distribution::OpenSuse, "sudo zypper install bubblewrap"),
    fix(Distribution::Alpine, "sudo apk add bubblewrap"),
    fix(
        Distribution::NixOs,
        "environment.systemPackages = [ pkgs.bubblewrap ];  # in configuration.nix, then: sudo nixos-rebuild switch",
    ),
    fix(Distribution::Wsl, WSL_INSTALL),
];

pub(super) static UPGRADE: &[Fix] = &[
    fix(Distribution::Debian, "sudo apt update && sudo apt install bubblewrap  # Debian 12 or later"),
    fix(Distribution::Ubuntu, "sudo apt update && sudo apt install bubblewrap  # Ubuntu 23.04 or later"),
    fix(Distribution::Fedora, "sudo dnf upgrade bubblewrap"),
    fix(Distribution::Arch, "sudo pacman -Syu bubblewrap"),
    fix(Distribution::OpenSuse, "sudo zypper update bubblewrap"),
    fix(Distribution::Alpine, "sudo apk add --upgrade bubblewrap"),
    fix(Distribution::NixOs, "sudo nixos-rebuild switch --upgrade"),
    fix(Distribution::Wsl, WSL_INSTALL),
];

const MAX_SYSCTL: &str =
    "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl --system";

pub(super) static MAX_NAMESPACES: &[Fix] = &[
    fix(Distribution::Debian, MAX_SYSCTL),
    fix(Distribution::Ubuntu, MAX_SYSCTL),
    fix(Distribution::Fedora, MAX_SYSCTL),
    fix(Distribution::Arch, MAX_SYSCTL),
    fix(Distribution::OpenSuse, MAX_SYSCTL),
    fix(
        Distribution::Alpine,
        "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl -p /etc/sysctl.d/60-userns.conf",
    ),
    fix(
        Distribution::NixOs,
        "boot.kernel.sysctl.\"user.max_user_namespaces\" = 15000;  # in configuration.nix, then: sudo nixos-rebuild switch",
    ),
    fix(Distribution::Wsl, MAX_SYSCTL),
];

const CLONE_SYSCTL: &str =
    "echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl --system";

pub(super) static CLONE: &[Fix] = &[
    fix(Distribution::Debian, CLONE_SYSCTL),
    fix(Distribution::Ubuntu, CLONE_SYSCTL),
    fix(Distribution::Fedora, CLONE_SYSCTL),
    fix(Distribution::Arch, CLONE_SYSCTL),
    fix(Distribution::OpenSuse, CLONE_SYSCTL),
    fix(
        Distribution::Alpine,
        "echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl -p /etc/sysctl.d/60-userns.conf",
    ),
    fix(
        Distribution::NixOs,
        "security.unprivilegedUsernsClone = true;  # in configuration.nix, then: sudo nixos-rebuild switch",
    ),
    fix(Distribution::Wsl, CLONE_SYSCTL),
];

/// One profile for the two programs that make namespaces; `flags=(unconfined)` takes nothing else away from them.
const APPARMOR_PROFILE: &str = "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\nprofile ai-jail /{usr/bin,usr/local/bin,home/*/.cargo/bin,home/*/.local/bin}/ai-jail flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/ai-jail && sudo apparmor_parser -r /etc/apparmor.d/ai-jail";

pub(super) static APPARMOR: &[Fix] = &[
    fix(Distribution::Debian, APPARMOR_PROFILE),
    fix(Distribution::Ubuntu, APPARMOR_PROFILE),
    fix(Distribution::Fedora, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    fix(Distribution::Arch, APPARMOR_PROFILE),
    fix(Distribution::OpenSuse, APPARMOR_PROFILE),
    fix(Distribution::Alpine, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    fix(
        Distribution::NixOs,
        "boot.kernel.sysctl.\"kernel.apparmor_restrict_unprivileged_userns\" = 0;  # in configuration.nix, then: sudo nixos-rebuild switch",
    ),
    fix(Distribution::Wsl, APPARMOR_PROFILE),
];

pub(super) static LANDLOCK: &[Fix] = &[
    fix(Distribution::Debian, "sudo apt full-upgrade  # a kernel from 5.13 on, then reboot"),
    fix(Distribution::Ubuntu, "sudo apt full-upgrade  # a kernel from 5.13 on, then reboot"),
    fix(
        Distribution::Fedora,
        "sudo grubby --update-kernel=ALL --args=lsm=lockdown,capability,landlock,yama,selinux,bpf  # then reboot",
    ),
    fix(
        Distribution::Arch,
        "add `lsm=landlock,lockdown,yama,integrity,bpf` to the kernel's command line, then reboot",
    ),
    fix(
        Distribution::OpenSuse,
        "add `lsm=landlock,lockdown,yama,integrity,apparmor,bpf` to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
    ),
    fix(
        Distribution::Alpine,
        "add `lsm=landlock,yama` to default_kernel_opts in /etc/update-extlinux.conf, then: sudo update-extlinux",
    ),
    fix(
        Distribution::NixOs,
        "security.lsm = [ \"landlock\" \"yama\" \"bpf\" ];  # in configuration.nix, then: sudo nixos-rebuild boot",
    ),
    fix(Distribution::Wsl, "wsl --update  # in Windows"),
];

pub(super) static LINGER: &[Fix] = &[
    fix(Distribution::Debian, "sudo apt install dbus-user-session && sudo loginctl enable-linger \"$USER\""),
    fix(Distribution::Ubuntu, "sudo apt install dbus-user-session && sudo loginctl enable-linger \"$USER\""),
    fix(Distribution::Fedora, "sudo loginctl enable-linger \"$USER\""),
    fix(Distribution::Arch, "sudo loginctl enable-linger \"$USER\""),
    fix(Distribution::OpenSuse, "sudo loginctl enable-linger \"$USER\""),
    fix(
        Distribution::NixOs,
        "users.users.NAME.linger = true;  # in configuration.nix, then: sudo nixos-rebuild switch",
    ),
    fix(
        Distribution::Wsl,
        "printf '[boot]\\nsystemd=true\\n' | sudo tee -a /etc/wsl.conf  # then, in Windows: wsl --shutdown",
    ),
];

pub(super) static UNIFIED: &[Fix] = &[
    fix(
        Distribution::Debian,
        "add `systemd.unified_cgroup_hierarchy=1` to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub",
    ),
    fix(
        Distribution::Ubuntu,
        "add `systemd.unified_cgroup_hierarchy=1` to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub",
    ),
    fix(
        Distribution::Fedora,
        "sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1  # then reboot",
    ),
    fix(
        Distribution::Arch,
        "add `systemd.unified_cgroup_hierarchy=1` to the kernel's command line, then reboot",
    ),
    fix(
        Distribution::OpenSuse,
        "add `systemd.unified_cgroup_hierarchy=1` to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
    ),
    fix(
        Distribution::Alpine,
        "set rc_cgroup_mode=\"unified\" in /etc/rc.conf, then: sudo rc-update add cgroups",
    ),
    fix(
        Distribution::NixOs,
        "systemd.enableUnifiedCgroupHierarchy = true;  # in configuration.nix, then: sudo nixos-rebuild switch",
    ),
    fix(
        Distribution::Wsl,
        "add `kernelCommandLine = cgroup_no_v1=all` below [wsl2] in %UserProfile%\\.wslconfig, then: wsl --shutdown",
    ),
];

pub(super) static WSL2: &[Fix] = &[fix(
    Distribution::Wsl,
    "wsl --set-version DISTRIBUTION 2  # in Windows; `wsl --list` names the distribution",
)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fix_that_a_distribution_can_need_names_it_once() {
        for (name, fixes) in [
            ("INSTALL", INSTALL),
            ("UPGRADE", UPGRADE),
            ("MAX_NAMESPACES", MAX_NAMESPACES),
            ("CLONE", CLONE),
            ("APPARMOR", APPARMOR),
            ("LANDLOCK", LANDLOCK),
            ("UNIFIED", UNIFIED),
        ] {
            let named: Vec<_> = fixes.iter().map(|fix| fix.distribution).collect();
            assert_eq!(named, Distribution::ALL, "{name}");
            assert!(fixes.iter().all(|fix| !fix.command.is_empty() && !fix.command.contains('\n')), "{name}");
        }
        // Alpine has no systemd, so there is none of the user's to start.
        assert!(LINGER.iter().all(|fix| fix.distribution != Distribution::Alpine));
        assert_eq!(LINGER.len(), Distribution::ALL.len() - 1);
    }
}
