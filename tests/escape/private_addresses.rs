//! Private addresses: reached by the host that was named for it, and by no other (NET-4).

use super::common::{DEADLINE, Feature, TestEnv, output_of};

/// A machine in a private network: in a network namespace of the test's own every address of 10.9.8.0/24, and that of the
/// clouds' metadata, leads to a server, and none of them is an interface's.
const MACHINE: &str = "ip link set lo up && ip route add local 10.9.8.0/24 dev lo \
    && ip route add local 169.254.169.254/32 dev lo && mount --bind ROOT/hosts /etc/hosts || exit 70
    python3 -m http.server 8080 --directory ROOT/served >/dev/null 2>&1 & server=$!; trap 'kill $server' EXIT
    i=0; until curl -sf http://10.9.8.7:8080/word >/dev/null; do i=$((i+1)); [ $i -lt 500 ] || exit 71; sleep 0.02; done\n";

#[test]
fn a_private_address_is_reached_by_the_host_that_may_have_one() {
    let claim = "private addresses";
    if !Feature::Program("ip").needed_for(claim) || !Feature::Root.needed_for(claim) {
        return;
    }
    let env = TestEnv::new();
    env.file(
        env.root().join("hosts"),
        "127.0.0.1 localhost\n10.9.8.7 intern.example.com\n169.254.169.254 meta.example.com\n",
    );
    env.file(env.root().join("served/word"), "served");
    let machine = MACHINE.replace("ROOT", env.root().to_str().expect("UTF-8"));
    let on_it = |script: &str| {
        let script = format!("{machine}{script}");
        output_of(env.command("unshare").args(["-n", "-m", "sh", "-c", &script]), DEADLINE)
    };
    let fetch = |host: &str| format!("curl -sSf -m 20 http://{host}:8080/word");
    for host in ["intern.example.com", "meta.example.com"] {
        assert_eq!(on_it(&fetch(host)).ok(), "served", "control: {host}");
    }
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let allow = "--allow-host intern.example.com:8080 --allow-host meta.example.com:8080";
    let inside = |flags: &str, host: &str| {
        on_it(&format!("{jail} {allow} {flags} -- sh -c 'echo begun; {}'", fetch(host)))
    };
    let wanted = [
        ("", "intern.example.com", false),
        ("--allow-private meta.example.com", "intern.example.com", false),
        ("--allow-private intern.example.com", "intern.example.com", true),
        // Metadata is not private: it takes a rule that names the address.
        ("--allow-private meta.example.com", "meta.example.com", false),
    ];
    for (flags, host, served) in wanted {
        let output = inside(flags, host);
        assert!(output.stdout.starts_with("begun\n"), "the jail did not start: {output:#?}");
        assert_eq!(output.stdout.contains("served"), served, "{flags}: {host}: {output:#?}");
        assert_eq!(output.success(), served, "{flags}: {host}: {output:#?}");
    }
    // It allows no host.
    let other =
        on_it(&format!("{jail} --allow-private intern.example.com -- {}", fetch("intern.example.com")));
    assert!(!other.success() && !other.stdout.contains("served"), "{other:#?}");
}
