//! Nothing that the command writes runs on the host by itself: each plant is made, then the user's own git is
//! used in the project, and a marker tells whether anything fired.

use super::common::{DEADLINE, Feature, Git, TestEnv, missing, output_of};
use super::run_inside;

/// A plant: `$FIRE` is a program that leaves the marker.
struct Plant {
    claim: &'static str,
    script: &'static str,
}

const fn plant(claim: &'static str, script: &'static str) -> Plant {
    Plant { claim, script }
}

/// Ways to leave something for git. Each is a shell script that runs in the project.
const PLANTS: &[Plant] = &[
    plant("core.fsmonitor", "git config core.fsmonitor \"$FIRE\""),
    plant(
        "core.fsmonitor, written without git",
        "printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" >> .git/config",
    ),
    plant(
        "core.fsmonitor, by a file renamed into place",
        "cp .git/config c && printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" >> c && mv -f c .git/config",
    ),
    plant(
        "core.fsmonitor, by git directories that change places",
        "cp -r .git g && printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" >> g/config && mv .git old && mv g .git",
    ),
    plant("a hook", "cp \"$FIRE\" .git/hooks/post-commit"),
    plant("a hook by a symlink", "ln -s \"$FIRE\" .git/hooks/pre-commit"),
    plant(
        "a hooks directory that changes places",
        "mkdir h && cp \"$FIRE\" h/post-commit && mv .git/hooks old && mv h .git/hooks",
    ),
    plant(
        "core.hooksPath",
        "mkdir hooks && cp \"$FIRE\" hooks/post-commit && git config core.hooksPath hooks",
    ),
    plant("diff.*.textconv", "git config diff.x.textconv \"$FIRE\" && echo '*.md diff=x' > .gitattributes"),
    plant("diff.external", "git config diff.external \"$FIRE\""),
    plant("diff.*.command", "git config diff.x.command \"$FIRE\" && echo '*.md diff=x' > .gitattributes"),
    plant("filter.*.clean", "git config filter.x.clean \"$FIRE\" && echo '*.md filter=x' > .gitattributes"),
    plant(
        "filter.*.smudge",
        "git config filter.x.smudge \"$FIRE\" && echo '*.md filter=x' > .gitattributes && rm README.md",
    ),
    plant(
        "filter by info/attributes",
        "git config filter.x.clean \"$FIRE\" && mkdir -p .git/info && echo '*.md filter=x' > .git/info/attributes",
    ),
    plant("core.editor", "git config core.editor \"$FIRE\""),
    plant("sequence.editor", "git config sequence.editor \"$FIRE\""),
    plant("gpg.program", "git config gpg.program \"$FIRE\" && git config commit.gpgsign true"),
    plant(
        "core.sshCommand",
        "git config core.sshCommand \"$FIRE\" && git config remote.o.url ssh://nowhere.invalid/x",
    ),
    plant("credential.helper", "git config credential.helper \"$FIRE\""),
    plant("alias", "git config alias.zz \"!$FIRE\""),
    plant(
        "include.path",
        "printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" > inc && git config include.path ../inc",
    ),
    plant(
        "includeIf",
        "printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" > inc && git config includeIf.gitdir:/.path ../inc",
    ),
    plant(
        "config.worktree",
        "git config extensions.worktreeConfig true && printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" > .git/config.worktree",
    ),
    plant(
        "commondir",
        "cp -r .git g && printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" >> g/config && echo ../g > .git/commondir",
    ),
    plant(
        "a .git that becomes a file",
        "cp -r .git g && printf '[core]\\n\\tfsmonitor = %s\\n' \"$FIRE\" >> g/config && mv .git old && echo 'gitdir: g' > .git",
    ),
    plant("a hook of a submodule's git directory", "cp \"$FIRE\" .git/modules/sub/hooks/post-commit"),
    plant("a submodule's config", "git -C sub config core.fsmonitor \"$FIRE\""),
    plant("core.askpass", "git config core.askpass \"$FIRE\""),
    plant(
        "a git directory that was moved away, and a new one",
        "mv .git .git.bak && git init -q && git config core.fsmonitor \"$FIRE\"",
    ),
    plant(
        "a nested repository that git status enters",
        "git init -q n && git -C n commit -q --allow-empty -m n && git add n && git commit -q -m n \
         && git config -f n/.git/config core.fsmonitor \"$FIRE\"",
    ),
    plant(
        "a nested repository by a .git file",
        "git init -q n && git -C n commit -q --allow-empty -m n && git add n && git commit -q -m n \
         && mv n/.git gd && git config -f gd/config core.fsmonitor \"$FIRE\" && echo 'gitdir: ../gd' > n/.git",
    ),
    plant(
        "a nested repository by a symlink",
        "git init -q n && git -C n commit -q --allow-empty -m n && git add n && git commit -q -m n \
         && mv n/.git gd && git config -f gd/config core.fsmonitor \"$FIRE\" && ln -s ../gd n/.git",
    ),
    plant(
        "a submodule's git directory that is made anew",
        "cp -r .git/modules/sub .git/modules/new && git config -f .git/modules/new/config core.fsmonitor \"$FIRE\" \
         && git config -f .git/modules/new/config core.worktree ../../../new && mkdir new \
         && echo 'gitdir: ../.git/modules/new' > new/.git && git add new && git commit -q -m new",
    ),
    plant(
        "a hook of a linked worktree's own configuration",
        "git worktree add -q wt && git config extensions.worktreeConfig true \
         && git -C wt config --worktree core.fsmonitor \"$FIRE\" && git -C wt config --worktree core.bare false",
    ),
    plant(
        "a submodule's git directory that changes places",
        "cp -r .git/modules/sub g && git config -f g/config core.fsmonitor \"$FIRE\" && mv .git/modules/sub old \
         && mv g .git/modules/sub",
    ),
];

/// What a user does afterwards. Status and output do not matter: only what fires.
const HOST_TOOLS: &str = "echo x >> README.md; git status; git diff; git log -p -2; git show; git blame README.md; git add -A; \
    git checkout -- .; git stash; git stash pop; git zz; GIT_TERMINAL_PROMPT=0 git fetch o; \
    printf 'protocol=https\\nhost=y.invalid\\n' | git credential fill; \
    git -C sub status; git -C wt status; cd sub && echo x >> s && git commit -q -a -m sub; cd ..; echo x >> src/lib.txt; git diff; \
    git add -A; git commit -q -m after; git commit --amend; git rebase -i HEAD; \
    printf 'protocol=https\\nhost=x.invalid\\n' | GIT_TERMINAL_PROMPT=0 git credential fill; true";

#[test]
fn nothing_planted_in_git_runs_on_the_host() {
    let fired: Vec<String> = std::thread::scope(|scope| {
        let halves: Vec<_> = PLANTS
            .chunks(PLANTS.len().div_ceil(2))
            .map(|half| scope.spawn(move || half.iter().filter_map(Plant::try_both).collect::<Vec<_>>()))
            .collect();
        halves.into_iter().flat_map(|half| half.join().expect("no panic")).collect()
    });
    assert!(fired.is_empty(), "these fired on the host after the session:\n{}", fired.join("\n"));
}

impl Plant {
    /// What happened when it fired although it was planted inside, or did not fire although it was outside.
    fn try_both(&self) -> Option<String> {
        let control = Host::new();
        let output = control.env.outside(&control.with_fire(self.script));
        if !output.success() || !control.fires() {
            return Some(format!("control: {} does not fire outside: {output:#?}", self.claim));
        }

        let host = Host::new();
        let output = run_inside(&host.env, &[], &host.with_fire(self.script));
        host.fires().then(|| format!("{}: {output:#?}", self.claim))
    }
}

/// A repository with a submodule, and a program that leaves a marker.
struct Host {
    env: TestEnv,
}

impl Host {
    fn new() -> Self {
        let env = TestEnv::new();
        let git = Git::new(&env).init();
        let other = env.dir(env.root().join("other"));
        env.file(other.join("s"), "s\n");
        for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "sub"]] {
            git.run_in(&other, args).ok();
        }
        let from = other.to_str().expect("UTF-8");
        git.run(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "sub"]).ok();
        git.run(&["commit", "-q", "-m", "submodule"]).ok();
        // Beside the project, where it cannot be changed from inside, and known only to this test.
        let marker = env.root().join("fired");
        env.script(env.root().join("fire"), &format!("touch '{}'", marker.display()));
        Self { env }
    }

    fn with_fire(&self, script: &str) -> String {
        format!("FIRE='{}'; {script}", self.env.root().join("fire").display())
    }

    /// Uses git as the user would and looks for the marker.
    fn fires(&self) -> bool {
        let mut tools = self.env.command("sh");
        tools
            .args(["-c", HOST_TOOLS])
            .env("GIT_PAGER", "cat")
            .env("GIT_SSH_VARIANT", "simple")
            .env("EDITOR", "true");
        assert!(!output_of(&mut tools, DEADLINE).timed_out, "git hangs");
        self.env.root().join("fired").exists()
    }
}

#[test]
fn the_pager_of_a_repository_does_not_run_on_the_host() {
    for key in ["core.pager", "pager.log"] {
        let script = format!("git config {key} \"$FIRE\"");
        let log = |host: &Host| {
            // Git starts a pager only on a terminal.
            let mut terminal = super::common::Terminal::outside(&host.env, ["git", "log"]);
            if terminal.wait(std::time::Duration::from_secs(20)).is_none() {
                terminal.send("q");
            }
            host.env.root().join("fired").exists()
        };
        let control = Host::new();
        control.env.outside(&control.with_fire(&script)).ok();
        assert!(log(&control), "control: {key} fires outside");
        let host = Host::new();
        run_inside(&host.env, &[], &host.with_fire(&script));
        assert!(!log(&host), "{key} fired on the host");
    }
}

#[test]
fn protected_files_that_exist_cannot_be_changed_and_absent_ones_do_not_stay() {
    let names = [
        ".envrc",
        ".vscode/tasks.json",
        ".vscode/settings.json",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".mcp.json",
        ".gitmodules",
        ".husky/pre-commit",
        ".bashrc",
        ".gitconfig",
        ".ripgreprc",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/commands/x.md",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".ai-jail.toml",
        ".ai-jail/config.toml",
    ];
    for name in names {
        let write = format!("mkdir -p \"$(dirname {name})\" && echo planted > {name}");
        let env = TestEnv::new();
        env.outside(&write).ok();
        assert!(env.project().join(name).exists(), "control: {name} can be made outside");

        let env = TestEnv::new();
        let file = env.file(name, "# the user's own\n");
        run_inside(&env, &[], &format!("({write}); rm -rf {name}; mv -f other {name}; true"));
        assert_eq!(
            std::fs::read_to_string(&file).expect("it stays"),
            "# the user's own\n",
            "{name} was changed"
        );

        let env = TestEnv::new();
        run_inside(&env, &[], &format!("({write}); true"));
        assert!(!env.project().join(name).exists(), "{name} was absent at launch and is there afterwards");
    }
}

#[test]
fn a_bare_repository_in_a_subdirectory_does_not_fire() {
    let script = "mkdir -p sub2 && cd sub2 && git init -q --bare . && git config core.fsmonitor \"$FIRE\" \
                  && git config core.worktree . && git config core.bare false";
    let tools = "cd sub2 && git -c safe.bareRepository=all status; true";
    let control = Host::new();
    control.env.outside(&control.with_fire(script)).ok();
    control.env.outside(tools).ok();
    if !control.env.root().join("fired").exists() {
        missing(
            Feature::Program("git with bare repositories"),
            "a bare repository below",
            "the control does not fire",
        );
        return;
    }
    let host = Host::new();
    run_inside(&host.env, &[], &host.with_fire(script));
    host.env.outside(tools).ok();
    assert!(!host.env.root().join("fired").exists(), "the bare repository fired");
}
