//! What one session prepares and the next one uses: names that are hidden, moved or closed in between, and files that only
//! settings name. Each case ends with a file that something outside reads or runs, and that must not be changed.

use super::common::TestEnv;
use super::run_inside;

/// `prepare` is the user's own doing; then each session runs; then `target`, in the project, must not say PLANTED.
struct Case {
    claim: &'static str,
    prepare: &'static str,
    sessions: &'static [&'static str],
    target: &'static str,
}

const fn case(
    claim: &'static str,
    prepare: &'static str,
    sessions: &'static [&'static str],
    target: &'static str,
) -> Case {
    Case { claim, prepare, sessions, target }
}

const CASES: &[Case] = &[
    case(
        "a git directory that was closed",
        "git init -q",
        &["chmod 000 .git", "chmod 755 .git; echo '#PLANTED' >> .git/config"],
        ".git/config",
    ),
    case(
        "a git directory that was closed in part",
        "git init -q",
        &["chmod 400 .git", "chmod 755 .git; echo PLANTED > .git/hooks/pre-commit"],
        ".git/hooks/pre-commit",
    ),
    case(
        "the directory of settings that was closed",
        "mkdir .claude; echo '{}' > .claude/settings.json",
        &["chmod 000 .claude", "chmod 755 .claude; echo PLANTED > .claude/settings.json"],
        ".claude/settings.json",
    ),
    case(
        "a directory on the way that was closed",
        "mkdir -p sub/.vscode; echo '{}' > sub/.vscode/tasks.json",
        &["chmod 000 sub", "chmod 755 sub; echo PLANTED > sub/.vscode/tasks.json"],
        "sub/.vscode/tasks.json",
    ),
    case(
        "settings that were moved into a dependency folder",
        "mkdir .claude; echo '{}' > .claude/settings.json",
        &[
            "mkdir build; mv .claude build",
            "echo PLANTED > build/.claude/settings.json; mv build/.claude .",
            "echo PLANTED > .claude/settings.json",
        ],
        ".claude/settings.json",
    ),
    case(
        "a package that was moved into a dependency folder",
        "mkdir -p packages/a/.vscode; echo '{}' > packages/a/.vscode/tasks.json",
        &[
            "mkdir build; mv packages build",
            "echo PLANTED > build/packages/a/.vscode/tasks.json; mv build/packages .",
            "mv packages/a build; mkdir -p build/a/.vscode",
            "echo PLANTED > build/a/.vscode/tasks.json; mkdir packages; mv build/a packages/",
        ],
        "packages/a/.vscode/tasks.json",
    ),
    case(
        "a repository that was moved into a dependency folder",
        "mkdir packages; git init -q packages/app",
        &[
            "mkdir build; mv packages build",
            "echo '#PLANTED' >> build/packages/app/.git/config; mv build/packages .",
        ],
        "packages/app/.git/config",
    ),
    case(
        "a repository that was moved into a git directory",
        "git init -q; git init -q app",
        &[
            "mkdir .git/x; mv app .git/x/ || { mkdir .git/x/app; mv app/.git .git/x/app/; }",
            "echo '#PLANTED' >> .git/x/app/.git/config; mv .git/x/app .",
        ],
        "app/.git/config",
    ),
    case(
        "a tree that was moved deep down",
        "mkdir -p a/.vscode; echo '{}' > a/.vscode/tasks.json",
        &[
            "p=z; for i in $(seq 66); do p=$p/z; done; mkdir -p $p; mv a $p/",
            "p=z; for i in $(seq 66); do p=$p/z; done; echo PLANTED > $p/a/.vscode/tasks.json; mv $p/a .",
        ],
        "a/.vscode/tasks.json",
    ),
    case(
        "a submodule whose HEAD was hidden",
        "git init -q; git init -q x; mkdir -p .git/modules; mv x/.git .git/modules/lib",
        &[
            "mv .git/modules/lib/HEAD .git/modules/lib/H",
            "mv .git/modules/lib/H .git/modules/lib/HEAD; echo '#PLANTED' >> .git/modules/lib/config",
        ],
        ".git/modules/lib/config",
    ),
    case(
        "a submodule among many directories",
        "git init -q; git init -q x; mkdir -p .git/modules; mv x/.git .git/modules/lib",
        &["cd .git/modules; seq 1 3000 | xargs mkdir", "echo '#PLANTED' >> .git/modules/lib/config"],
        ".git/modules/lib/config",
    ),
    case(
        "submodules' directories that change places",
        "git init -q; git init -q x; mkdir -p .git/modules; mv x/.git .git/modules/lib",
        &[
            "mv .git/modules .git/m2 && mkdir -p .git/modules/lib && echo '#PLANTED' > .git/modules/lib/config",
        ],
        ".git/modules/lib/config",
    ),
    case(
        "work trees' directories that change places",
        "git init -q; git commit -q --allow-empty -m x; git worktree add -q wt",
        &[
            "mv .git/worktrees .git/w2 && mkdir -p .git/worktrees/wt && echo PLANTED > .git/worktrees/wt/commondir",
        ],
        ".git/worktrees/wt/commondir",
    ),
    case(
        "a separate git directory in the project",
        "mkdir data; git init -q --separate-git-dir=data/gd .",
        &["echo '#PLANTED' >> data/gd/config"],
        "data/gd/config",
    ),
    case(
        "a common directory in the project",
        "git init -q; mv .git shared; mkdir .git; cp shared/HEAD .git; echo ../shared > .git/commondir",
        &["echo '#PLANTED' >> shared/config"],
        "shared/config",
    ),
    case(
        "a linked hooks directory",
        "git init -q; rm -r .git/hooks; mkdir -p scripts/hooks; ln -s ../scripts/hooks .git/hooks",
        &[
            "echo PLANTED > scripts/hooks/pre-commit",
            "mv scripts s2; mkdir -p scripts/hooks; echo PLANTED > scripts/hooks/pre-commit",
        ],
        ".git/hooks/pre-commit",
    ),
    case(
        "a linked hook",
        "git init -q; mkdir tools; echo > tools/pc; ln -s ../../tools/pc .git/hooks/pre-commit",
        &["echo PLANTED > tools/pc", "mv tools t2; mkdir tools; echo PLANTED > tools/pc"],
        ".git/hooks/pre-commit",
    ),
    case(
        "a linked config",
        "git init -q; mv .git/config cfg; ln -s ../cfg .git/config",
        &["echo '#PLANTED' >> cfg"],
        ".git/config",
    ),
    case(
        "core.hooksPath",
        "git init -q; mkdir -p tools/h; git config core.hooksPath tools/h",
        &[
            "echo PLANTED > tools/h/pre-commit",
            "mv tools t2; mkdir -p tools/h; echo PLANTED > tools/h/pre-commit",
        ],
        "tools/h/pre-commit",
    ),
    case(
        "include.path",
        "git init -q; mkdir conf; echo > conf/inc; git config include.path ../conf/inc",
        &["echo '#PLANTED' > conf/inc", "rm conf/inc; echo '#PLANTED' > conf/inc"],
        "conf/inc",
    ),
    case(
        "a filter's script",
        "git init -q; mkdir tools; echo > tools/clean.sh; git config filter.x.clean 'sh ./tools/clean.sh %f'",
        &["echo PLANTED > tools/clean.sh"],
        "tools/clean.sh",
    ),
    case(
        "a hook's script of an agent",
        "mkdir .claude s; echo > s/h.sh; echo '{\"hooks\":{\"Stop\":[{\"hooks\":[{\"command\":\"./s/h.sh\"}]}]}}' > .claude/settings.json",
        &["echo PLANTED > s/h.sh", "mv s s2; mkdir s; echo PLANTED > s/h.sh"],
        "s/h.sh",
    ),
    case(
        "the link of a submodule in a dependency folder",
        "mkdir -p vendor/lib; echo 'gitdir: ../../x' > vendor/lib/.git",
        &["echo 'gitdir: PLANTED' > vendor/lib/.git"],
        "vendor/lib/.git",
    ),
    case(
        "a bare repository",
        "git init -q --bare f/r.git",
        &["echo '#PLANTED' >> f/r.git/config"],
        "f/r.git/config",
    ),
    case(
        "a bare repository whose HEAD was hidden",
        "git init -q --bare f/r.git",
        &["mv f/r.git/HEAD f/r.git/H", "mv f/r.git/H f/r.git/HEAD; echo '#PLANTED' >> f/r.git/config"],
        "f/r.git/config",
    ),
    case(
        "the project as a bare repository",
        "git init -q --bare .",
        &["echo PLANTED > hooks/update"],
        "hooks/update",
    ),
    case("dotfiles by package", "mkdir zsh; echo > zsh/.zshrc", &["echo PLANTED > zsh/.zshrc"], "zsh/.zshrc"),
];

#[test]
fn what_one_session_prepares_does_not_help_the_next() {
    let changed: Vec<String> = std::thread::scope(|scope| {
        let halves: Vec<_> = CASES
            .chunks(CASES.len().div_ceil(2))
            .map(|half| scope.spawn(move || half.iter().filter_map(Case::try_both).collect::<Vec<_>>()))
            .collect();
        halves.into_iter().flat_map(|half| half.join().expect("no panic")).collect()
    });
    assert!(changed.is_empty(), "these were changed:\n{}", changed.join("\n"));
}

impl Case {
    fn try_both(&self) -> Option<String> {
        let control = self.environment();
        for session in self.sessions {
            control.outside(session);
        }
        if !self.planted(&control) {
            return Some(format!("control: {} is not planted outside", self.claim));
        }
        let env = self.environment();
        let outputs: Vec<_> =
            self.sessions.iter().map(|session| run_inside(&env, &[], &format!("{session}; true"))).collect();
        self.planted(&env).then(|| format!("{}: {outputs:#?}", self.claim))
    }

    fn environment(&self) -> TestEnv {
        // Closing a directory stops nobody who is root outside.
        let env = TestEnv::ordinary().unwrap_or_else(TestEnv::new);
        let identity = "git config --global user.name x; git config --global user.email x@example.com; ";
        env.outside(&format!("{identity}{}", self.prepare)).ok();
        env
    }

    fn planted(&self, env: &TestEnv) -> bool {
        let target = self.target;
        env.outside(&format!("chmod -R u+rwX . 2>/dev/null; cat {target}")).stdout.contains("PLANTED")
    }
}

#[test]
fn what_an_earlier_session_wrote_does_not_choose_what_is_mounted() {
    let plant = "mkdir -p objects refs; cp .git/HEAD HEAD; printf '[core]\\nworktree=sub\\n' > config; echo 'gitdir: ..' > sub/.git";
    let env = TestEnv::ordinary().unwrap_or_else(TestEnv::new);
    env.outside("git init -q; mkdir sub").ok();
    env.outside(plant).ok();
    assert!(env.outside("cd sub && git rev-parse --git-dir").success(), "control: git believes it");
    let project = env.project().join("sub");
    let output = env.jail(["--project", project.to_str().expect("UTF-8"), "--", "true"]);
    assert!(output.refused().contains("by its place"), "{output:#?}");
}

#[test]
fn a_home_with_hidden_and_protected_places_can_be_the_project() {
    let env = TestEnv::ordinary().unwrap_or_else(TestEnv::new);
    let home = env.home();
    env.file(home.join(".ssh/.git/config"), "x\n");
    env.file(home.join(".bashrc"), "# own\n");
    env.config("");
    env.jail(["--", "true"]).ok();
    let script = "cd ~ && ls -A .ssh; for f in .bashrc .config/ai-jail/config.toml .local/share/ai-jail/x; do echo PLANTED > $f; done; true";
    let output = run_inside(&env, &["--project", home.to_str().expect("UTF-8")], script);
    assert_eq!(output.stdout, "begun\n", "{output:#?}");
    let found = env.outside("cd ~ && grep -rl PLANTED . ; true");
    assert_eq!(found.stdout, "", "{output:#?}");
}

#[test]
fn a_git_directory_is_no_project() {
    let env = TestEnv::new();
    env.outside("git init -q").ok();
    for project in [".git", ".git/hooks"] {
        let output = env.jail(["--project", project, "--", "true"]);
        assert!(output.refused().contains("git's own"), "{output:#?}");
    }
}

#[test]
fn more_protected_paths_than_can_be_held_are_refused_in_words() {
    let env = TestEnv::new();
    env.outside("seq 10001 | xargs mkdir; for i in $(seq 10001); do : > $i/.envrc; done").ok();
    let output = env.jail(["--", "true"]);
    assert!(output.refused().contains("protected paths"), "{output:#?}");
}
