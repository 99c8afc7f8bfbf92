//! Which test covers which mechanism, by the ids of the groups "mounts and paths" (M), "left for later execution" (T) and
//! "network" (N).
//! The list is kept true by a test: every id is there, and every test that is named exists.

use std::path::Path;

/// An id, what it is about, and its tests as `file::function` below `tests`, or below the package for unit tests.
struct Covered(&'static str, &'static str, &'static [&'static str]);

const COVERED: &[Covered] = &[
    Covered(
        "M1",
        "a symlink to /oldroot under a path that a launcher would create",
        &["escape/regression.rs::mount_points_are_not_made_through_symlinks_of_the_project"],
    ),
    Covered(
        "M2",
        "absolute symlinks and narrow parents of a destination",
        &[
            "escape/places.rs::grants_behind_symlinks_and_narrow_parents_are_no_obstacle",
            "escape/mounts.rs::a_directory_that_only_can_be_passed_through_is_no_obstacle",
            "escape/mounts.rs::a_home_behind_a_symlink_is_no_obstacle",
        ],
    ),
    Covered("M3", "a setuid bwrap", &["escape/missing_protection.rs::a_setuid_bwrap_is_not_used"]),
    Covered(
        "M4",
        "a state directory that became a symlink",
        &[
            "escape/regression.rs::a_private_home_that_became_a_symlink_is_refused",
            "escape/state.rs::a_state_directory_that_is_or_becomes_a_symlink_is_refused",
        ],
    ),
    Covered(
        "M5",
        "paths of the project's configuration through symlinks",
        &["escape/regression.rs::a_projects_config_does_not_grant_what_its_symlinks_lead_to"],
    ),
    Covered(
        "M6",
        "writing through a symlink",
        &[
            "escape/mounts.rs::what_is_not_granted_cannot_be_reached",
            "escape/regression.rs::a_projects_config_does_not_grant_what_its_symlinks_lead_to",
        ],
    ),
    Covered(
        "M7",
        "absent agent settings made inside",
        &[
            "escape/regression.rs::absent_settings_of_agents_do_not_stay",
            "escape/later_tools.rs::what_an_agent_runs_by_itself_and_was_absent_is_absent_afterwards",
        ],
    ),
    Covered(
        "M8",
        "what is masked is hidden",
        &[
            "escape/covers.rs::every_case_of_the_table_holds_in_a_jail",
            "escape/covers.rs::deny_shows_nothing_and_mask_shows_something_empty",
        ],
    ),
    Covered(
        "M10",
        "a renamed parent",
        &[
            "escape/covers.rs::what_is_denied_and_masked_cannot_be_used_in_any_way",
            "escape/guard_recovery.rs::refactoring_works_around_what_is_protected",
        ],
    ),
    Covered(
        "M12",
        "a symlink and its target",
        &["escape/covers.rs::a_symlink_and_what_it_leads_to_are_both_covered"],
    ),
    Covered(
        "M13",
        "a mask below a symlinked directory",
        &["escape/covers.rs::a_symlink_and_what_it_leads_to_are_both_covered"],
    ),
    Covered(
        "M27",
        "a glob with 4,000 matches",
        &["escape/covers.rs::four_thousand_matches_are_covered_soon"],
    ),
    Covered(
        "M9",
        "hard links",
        &[
            "escape/guard_recovery.rs::a_hard_link_of_a_protected_file_does_not_open_it",
            "src/host/protected/tests.rs::every_name_of_a_protected_file_is_read_only",
            "escape/covers.rs::another_name_of_a_covered_file_is_covered",
        ],
    ),
    Covered(
        "M11",
        "the same tree by another way",
        &[
            "escape/guard_recovery.rs::a_protected_file_is_protected_by_every_way_to_it",
            "escape/grants.rs::read_only_holds_under_every_name",
            "git.rs::a_linked_worktree_takes_a_commit",
        ],
    ),
    Covered(
        "M14",
        "no debris",
        &[
            "git.rs::the_host_sees_no_difference_while_the_jail_runs",
            "git.rs::the_status_is_the_same_before_and_after",
        ],
    ),
    Covered(
        "M15",
        "no repository, an unwritable parent",
        &[
            "escape/places.rs::a_project_in_a_directory_that_cannot_be_written_works",
            "escape/mounts.rs::a_project_that_is_no_repository_works",
        ],
    ),
    Covered(
        "M16",
        "leaked descriptors and directory",
        &[
            "escape/regression.rs::leaked_descriptors_do_not_enter",
            "escape/regression.rs::the_working_directory_does_not_lead_out",
        ],
    ),
    Covered("M17", "our own program", &["escape/regression.rs::our_own_program_cannot_be_overwritten"]),
    Covered(
        "M18",
        "swapping while a jail starts",
        &[
            "escape/places.rs::jails_that_start_while_another_swaps_directories_for_symlinks_reach_nothing",
            "escape/regression.rs::a_directory_swapped_for_a_symlink_during_the_launch_leads_nowhere",
            "escape/grants.rs::a_running_jail_that_swaps_a_directory_above_the_project_or_a_grant_shows_nothing_else",
        ],
    ),
    Covered("M19", "mount calls", &["escape/syscalls.rs::refused_calls_do_not_reach_the_kernel"]),
    Covered("M20", "a nested user namespace", &["escape/mounts.rs::what_is_not_granted_cannot_be_reached"]),
    Covered("M21", "propagation", &["escape/mounts.rs::nothing_propagates_to_the_host"]),
    Covered(
        "M22",
        "files of the kernel that run programs",
        &["escape/mounts.rs::files_of_the_kernel_that_run_programs_cannot_be_written"],
    ),
    Covered("M23", "open_by_handle_at", &["escape/syscalls.rs::refused_calls_do_not_reach_the_kernel"]),
    Covered("M24", "/dev", &["escape/mounts.rs::the_device_directory_is_minimal"]),
    Covered(
        "M25",
        "directories without case",
        &[
            "src/host/protected/fold.rs::names_that_such_a_directory_takes_for_one_of_the_table_are_recognised",
            "src/guard/ground/tests.rs::a_name_that_a_directory_without_case_takes_for_another_touches_it",
        ],
    ),
    Covered(
        "M26",
        "odd names",
        &[
            "escape/mounts.rs::the_project_is_mounted_at_its_own_path_whatever_its_name",
            "escape/mounts.rs::grants_with_odd_names_are_taken_literally",
            "escape/regression.rs::arguments_of_the_command_are_not_options_of_bwrap",
            "escape/guard_recovery.rs::odd_names_are_shown_escaped_and_come_back",
        ],
    ),
    Covered(
        "M28",
        "root, cwd and fd of processes",
        &[
            "escape/mounts.rs::what_is_not_granted_cannot_be_reached",
            "escape/ipc.rs::processes_of_the_host_are_not_visible",
        ],
    ),
    Covered("M29", "/tmp of the host", &["escape/mounts.rs::the_temporary_directories_are_the_jails_own"]),
    Covered("T1", "core.fsmonitor", GIT),
    Covered("T2", "core.hooksPath", GIT),
    Covered("T3", "textconv, external diff", GIT),
    Covered("T4", "filters", GIT),
    Covered(
        "T5",
        "editors, pagers, helpers, aliases",
        &[GIT[0], "escape/later_execution.rs::the_pager_of_a_repository_does_not_run_on_the_host"],
    ),
    Covered("T6", "includes", GIT),
    Covered("T7", "config.worktree", GIT),
    Covered(
        "T8",
        "a bare repository below",
        &["escape/later_execution.rs::a_bare_repository_in_a_subdirectory_does_not_fire"],
    ),
    Covered(
        "T9",
        "a .git file and commondir that lead elsewhere",
        &[GIT[0], "escape/live_guard.rs::what_appears_in_a_protected_place_is_gone_while_the_jail_runs"],
    ),
    Covered("T10", "a nested repository", GIT),
    Covered("T11", "a git directory that was moved away", GIT),
    Covered(
        "T12",
        "git directories of submodules",
        &[GIT[0], "escape/later_sessions.rs::what_one_session_prepares_does_not_help_the_next"],
    ),
    Covered(
        "T13",
        "direnv, editors, containers, servers",
        &[
            "escape/later_execution.rs::protected_files_that_exist_cannot_be_changed_and_absent_ones_do_not_stay",
            "escape/later_tools.rs::what_direnv_and_editors_read_is_as_it_was_in_every_directory",
        ],
    ),
    Covered(
        "T14",
        "settings of every agent",
        &[
            "escape/later_tools.rs::what_an_agent_runs_by_itself_and_was_absent_is_absent_afterwards",
            "escape/later_tools.rs::what_an_agent_runs_by_itself_and_is_there_stays_as_it_is",
            "escape/state.rs::what_is_run_of_the_users_own_state_is_as_it_was_and_the_rest_is_shared",
        ],
    ),
    Covered(
        "T16",
        "toolchain directories on PATH",
        &["escape/later_tools.rs::programs_on_the_path_are_as_they_were"],
    ),
    Covered(
        "T19",
        "a rebase or sequencer left in progress",
        &["escape/handover.rs::an_operation_of_git_that_would_run_commands_is_told_first"],
    ),
    Covered(
        "T15",
        "a repository of dotfiles",
        &["escape/later_tools.rs::start_up_files_of_a_dotfiles_repository_do_not_run"],
    ),
    Covered(
        "T17",
        "ai-jail's own configuration",
        &["escape/later_tools.rs::the_next_run_is_not_configured_by_what_this_one_wrote"],
    ),
    Covered("T18", "jail to jail", &["escape/later_tools.rs::what_one_jail_plants_is_gone_for_the_other"]),
    Covered(
        "T20",
        "a rename over .git/config on the host",
        &[
            "escape/live_guard.rs::a_protected_file_that_is_replaced_outside_is_covered_again",
            "escape/live_guard.rs::a_loop_of_replacements_leaves_the_file_covered",
        ],
    ),
    Covered(
        "T21",
        "gitdir and commondir of another repository",
        &[
            "escape/regression.rs::a_repository_does_not_choose_what_is_mounted",
            "git.rs::a_repository_that_points_elsewhere_is_not_mounted",
        ],
    ),
    Covered(
        "N1",
        "an empty list allows nothing",
        &[
            "escape/network.rs::names_that_are_not_allowed_do_not_exist",
            "src/egress/decide.rs::an_empty_list_allows_nothing_and_other_modes_have_no_doors",
        ],
    ),
    Covered(
        "N2",
        "literal, private and metadata addresses, this machine",
        &[
            "escape/network.rs::ports_of_the_host_do_not_exist",
            "escape/network.rs::a_rule_for_everything_is_none_for_this_machine",
            "escape/network.rs::literal_addresses_are_refused_and_promptly",
            "escape/network_doors.rs::the_shared_authorities_hold_at_the_proxy_of_a_jail",
        ],
    ),
    Covered(
        "N3",
        "questions to name servers, names that carry data",
        &[
            "escape/network.rs::datagrams_have_no_way_out",
            "escape/network.rs::names_that_are_not_allowed_do_not_exist",
            "src/egress/door_tests/resolver.rs::names_that_a_rule_could_allow_get_addresses_and_others_do_not_exist",
        ],
    ),
    Covered("N4", "UDP, QUIC, ICMP", &["escape/network.rs::datagrams_have_no_way_out"]),
    Covered(
        "N5",
        "TLS, SSH and plain bytes where they do not belong",
        &[
            "escape/network.rs::a_tunnel_carries_only_the_name_that_was_asked_for",
            "escape/network_clients.rs::ssh_reaches_the_host_of_an_explicit_rule",
            "src/egress/hello.rs::a_hello_passes_with_the_name_that_was_asked_for_and_no_other",
            "src/egress/door_tests/transparent.rs::on_443_and_22_nothing_passes_but_what_they_are_for",
            "src/egress/door_tests/tunnels.rs::a_tunnel_to_port_80_carries_requests_for_its_host_alone",
        ],
    ),
    Covered(
        "N6",
        "another Host, and another second request",
        &[
            "escape/network_doors.rs::the_shared_requests_hold_at_the_proxy_of_a_jail",
            "src/egress/door_tests/http.rs::every_request_on_a_connection_is_decided_about",
            "src/egress/door_tests/transparent.rs::port_80_is_checked_request_by_request",
        ],
    ),
    Covered(
        "N7",
        "rebinding, mixed answers",
        &["src/egress/door_tests/tunnels.rs::of_mixed_answers_only_those_that_pass_are_dialled"],
    ),
    Covered(
        "N8",
        "a redirect to another host",
        &["escape/network_streams.rs::a_redirect_leads_to_no_host_that_is_not_allowed"],
    ),
    Covered(
        "N9",
        "a NUL in a name of SOCKS",
        &[
            "escape/network.rs::the_socks_door_keeps_the_same_policy",
            "src/egress/socks.rs::requests_are_read_by_the_one_grammar_of_hosts",
        ],
    ),
    Covered(
        "N10",
        "another jail or user at the doors",
        &["escape/network_doors.rs::nobody_outside_the_jail_comes_to_its_doors"],
    ),
    Covered(
        "N11",
        "silent, slow, huge and many connections",
        &[
            "escape/network_doors.rs::a_resolver_that_hangs_holds_up_neither_other_hosts_nor_the_end",
            "escape/network_streams.rs::large_bodies_pass_and_are_not_kept",
            "src/egress/door_tests/crowd.rs::whoever_leaves_in_whatever_state_gives_everything_back",
            "src/egress/door_tests/crowd.rs::the_last_slot_serves_while_all_others_are_dripped_into",
        ],
    ),
    Covered(
        "N12",
        "programs that know no proxy or want none",
        &[
            "escape/network.rs::the_policy_is_the_same_with_and_without_proxy_variables",
            "escape/network_clients.rs::clients_reach_the_allowed_host_and_no_other_with_a_proxy_and_without",
            "escape/network_clients.rs::a_program_that_knows_no_proxy_reaches_the_allowed_host_and_no_other",
        ],
    ),
    Covered("N13", "a killed supervisor", &["escape/network.rs::a_killed_supervisor_opens_no_way_out"]),
];

const GIT: &[&str] = &["escape/later_execution.rs::nothing_planted_in_git_runs_on_the_host"];

#[test]
fn every_mechanism_has_a_test_that_exists() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ids: Vec<&str> = COVERED.iter().map(|covered| covered.0).collect();
    let wanted = (1..=29).map(|n| format!("M{n}")).chain((1..=21).map(|n| format!("T{n}")));
    let wanted = wanted.chain((1..=13).map(|n| format!("N{n}")));
    let missing: Vec<String> = wanted.filter(|id| !ids.contains(&id.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
    for Covered(id, about, tests) in COVERED {
        assert!(!about.is_empty() && !tests.is_empty(), "{id}");
        for test in *tests {
            let (file, function) = test.split_once("::").expect("a file and a function");
            let below =
                if file.starts_with("src/") { package.join(file) } else { package.join("tests").join(file) };
            let text =
                std::fs::read_to_string(&below).unwrap_or_else(|error| panic!("{id}: {file}: {error}"));
            assert!(is_run(&text, function), "{id}: {test} is no test that runs");
        }
    }
}

/// Whether `function` is a test, and not one that is ignored.
fn is_run(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let heads = [format!("fn {function}() {{"), format!("async fn {function}() {{")];
    let Some(at) = lines.iter().position(|line| heads.iter().any(|head| line == head)) else {
        return false;
    };
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
    // Any other attribute may keep it from running.
    let attributes: Vec<&&str> = above.filter(|line| !line.starts_with("///")).collect();
    let is_test = |line: &&&str| **line == "#[test]" || line.starts_with("#[tokio::test");
    !attributes.is_empty() && attributes.iter().all(is_test)
}

#[test]
fn what_is_no_test_or_is_ignored_covers_nothing() {
    assert!(is_run("#[test]\nfn a() {\n}", "a"));
    assert!(is_run("    /// Why.\n    #[tokio::test(flavor = \"x\")]\n    async fn a() {", "a"));
    for attribute in ["ignore", "ignore = \"why\"", "cfg(x)", "cfg_attr(x, ignore)"] {
        for text in
            [format!("#[test]\n#[{attribute}]\nfn a() {{"), format!("#[{attribute}]\n#[test]\nfn a() {{")]
        {
            assert!(!is_run(&text, "a"), "{text:?}");
        }
    }
    for text in ["fn a() {", "#[test]\nfn b() {", "#[test]\n\nfn b() {}\nfn a() {"] {
        assert!(!is_run(text, "a"), "{text:?}");
    }
}
